import { describe, expect, test } from "vitest";
import type { QueueRow } from "../api/contract.ts";
import { mergeRows } from "../store/merge-rows.ts";
import { describeFlow } from "./overview/describe-flow.ts";
import { holdsBack } from "./overview/holds-back.ts";
import { sortRows } from "./overview/sort-rows.ts";
import { describeSearch, preview, withState } from "./tasks/search-text.ts";

function row(name: string, fields: Partial<QueueRow> = {}): QueueRow {
  const depth = {
    ...{ ready: 0, waiting: 0, scheduled: 0, claimed: 0, parked: 0, verifying: 0 },
    ...{ done: 0, dead: 0, cancelled: 0, expired: 0 },
  };
  const rates = { windowMs: 60_000, addedPerSecond: 0, donePerSecond: 0, failedPerSecond: 0 };
  return {
    ...{
      name,
      paused: false,
      depth,
      rates,
      oldestAt: null,
      oldestAge: null,
      failureRate: null,
      serviceTime: null,
    },
    ...{ waitTime: null, workers: 1, heldBack: null, ...fields },
  };
}

const waiting = (ready: number) => ({ depth: { ...row("").depth, ready } });

describe("the rows of queues", () => {
  test("a changed row of a queue keeps its sparkline if it comes without one", () => {
    const before = mergeRows(null, { rows: [row("a", { spark: [1, 2] }), row("b")] });
    const after = mergeRows(before, { rows: [row("a", waiting(5))], removed: ["b"] });
    expect([...after.keys()]).toEqual(["a"]);
    expect(after.get("a")).toMatchObject({ spark: [1, 2], depth: { ready: 5 } });
  });

  test("rows of queues are sorted by a number, and by name if it is equal", () => {
    const rows = [row("b"), row("a"), row("c", waiting(3))];
    expect(sortRows(rows, "depth", "").map(({ name }) => name)).toEqual(["c", "a", "b"]);
    expect(sortRows(rows, "name", "B").map(({ name }) => name)).toEqual(["b"]);
  });

  test("a row of a queue says what holds it back", () => {
    expect(holdsBack(row("a"))).toBeNull();
    expect(holdsBack(row("a", { paused: true }))).toBe("paused");
    expect(holdsBack(row("a", { heldBack: { by: "rate", until: null } }))).toBe("its rate limit");
    expect(holdsBack(row("a", { ...waiting(3), workers: 0 }))).toBe("no workers");
  });
});

describe("a search", () => {
  test("a search has at most one state", () => {
    expect(withState("queue:a state:dead x", "done")).toBe("state:done queue:a x");
    expect(withState("state:done queue:a", "done")).toBe("queue:a");
  });

  test("a search says what it compared and how far", () => {
    const searched = { text: "All tasks.", looked: 5_000, of: 9_000, states: [], queues: 2, shortened: 1 };
    const until = { queue: "a", state: "done" } as const;
    expect(describeSearch({ tasks: [], next: "x", searched: { ...searched, until } }, 3, 5_000)).toBe(
      "3 tasks found. All tasks. Compared 5,000 of 9,000, up to done tasks of a. " +
        "Of 1 large payload, only the beginning was compared.",
    );
  });

  test("a search shows characters that reorder text as numbers", () => {
    expect(preview({ a: "x\u202Ey" })).toBe(String.raw`{"a":"x\u202Ey"}`);
  });
});

test.each([
  [[0, 0, 0, 0], "Nothing is waiting, and nothing arrives.", false],
  [[0, 2, 0, 0], "2 tasks are being done.", false],
  [[0, 0, 12, 0], "12.0 tasks/s arrive, and none is done yet.", false],
  [[1, 0, 0, 0], "1 task waits, and none is being done.", true],
  [[9, 3, 12, 8], "Work is piling up: 12.0 tasks/s arrive.", true],
  [[9, 3, 8, 8], "Work is flowing: 8.0 tasks/s arrive.", false],
  [[0, 3, 8, 8], "Everything is done as it arrives.", false],
  [[9, 3, 0, 8], "Nothing arrives; 9 tasks wait.", false],
] as const)("the flow of all queues %j is a sentence", (figures, sentence, isStuck) => {
  const [waiting, running, addedPerSecond, donePerSecond] = figures;
  expect(describeFlow({ waiting, running, addedPerSecond, donePerSecond })).toEqual({ sentence, isStuck });
});
