import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import type { DeadFilter } from "../../../src/core/task/task.ts";
import type { ManualClock } from "../../../src/testing/manual-clock.ts";
import {
  addNamed,
  addOne,
  claim,
  claimOne,
  depths,
  failure,
  idsOf,
  makeDead,
  nack,
  QUEUE,
  refused,
  reject,
  SECOND,
  type Start,
} from "./kit.ts";

/** Six dead letters, a second apart: error, worker and kind of each. */
const DEATHS = [
  { error: failure("connect timeout after 10 ms", "NetError"), worker: "a", type: "letter" },
  { error: failure("connect timeout after 25 ms", "NetError"), worker: "b", type: "parcel" },
  { error: failure("no such user 'ada'", "NotFound"), worker: "a", type: "letter" },
  { error: failure("connect timeout after 7 ms", "NetError"), worker: "a" },
  { error: failure("no such user 'bob'", "NotFound"), worker: "c", type: "letter" },
  { error: failure("Disk is full"), worker: "a", type: "parcel" },
];
const TIMEOUT = "NetError: connect timeout after <n> ms";
const NOBODY = "NotFound: no such user <text>";

async function populate(port: Port, clock: ManualClock): Promise<string[]> {
  const ids: string[] = [];
  for (const { error, worker, type } of DEATHS) {
    const { id } = await addOne(port, type === undefined ? {} : { headers: { type } });
    await reject(port, await claimOne(port, { worker }), error);
    ids.push(id);
    await clock.advance(SECOND);
  }
  return ids;
}

async function list(port: Port, filter?: DeadFilter): Promise<string[]> {
  return idsOf((await port.list({ queue: QUEUE, state: "dead", limit: 100, filter })).tasks);
}

export function deadLetters(start: Start): void {
  describe("listing dead letters", () => {
    test("a list of dead letters has all fields, in the order of their deaths", async () => {
      const { port, clock, startedAt } = await start();
      const ids = await populate(port, clock);
      const { tasks, next } = await port.list({ queue: QUEUE, state: "dead", limit: 100 });
      expect(idsOf(tasks)).toEqual(ids);
      expect(next).toBeNull();
      expect(tasks[1]).toEqual(await port.task(ids[1]!));
      expect(tasks[1]).toMatchObject({
        state: "dead",
        attempt: 1,
        worker: "b",
        startedAt: startedAt + SECOND,
        endedAt: startedAt + SECOND,
        error: { ...DEATHS[1]!.error, fingerprint: TIMEOUT },
      });
    });

    test("dead letters are sorted by death, not by arrival", async () => {
      const { port, clock } = await start();
      const [first, second] = await addNamed(port, ["1", "2"]);
      const [a, b] = await claim(port, { max: 2 });
      await reject(port, b!);
      await clock.advance(SECOND);
      await reject(port, a!);
      expect(await list(port)).toEqual([second, first]);
    });

    test("dead letters are listed in pages", async () => {
      const { port, clock } = await start();
      const ids = await populate(port, clock);
      const seen: string[] = [];
      let after: string | undefined;
      for (let pages = 0; pages < 3; pages++) {
        const page = await port.list({ queue: QUEUE, state: "dead", limit: 2, after });
        seen.push(...idsOf(page.tasks));
        after = page.next ?? undefined;
        expect(page.next === null).toBe(pages === 2);
      }
      expect(seen).toEqual(ids);
    });

    test("pages of dead letters neither repeat nor miss one while others die or are removed", async () => {
      const { port, clock } = await start();
      const ids = await populate(port, clock);
      const first = await port.list({ queue: QUEUE, state: "dead", limit: 2 });
      await port.discard(QUEUE, { ids: ids.slice(0, 3) });
      const late = await makeDead(port);
      const rest = await port.list({ queue: QUEUE, state: "dead", limit: 100, after: first.next! });
      expect(idsOf(rest.tasks)).toEqual([...ids.slice(3), late]);
    });

    test("a filtered list of dead letters has pages", async () => {
      const { port, clock } = await start();
      const ids = await populate(port, clock);
      const query = { queue: QUEUE, state: "dead", limit: 2, filter: { pattern: TIMEOUT } } as const;
      const first = await port.list(query);
      expect(idsOf(first.tasks)).toEqual([ids[0], ids[1]]);
      const second = await port.list({ ...query, after: first.next! });
      expect(idsOf(second.tasks)).toEqual([ids[3]]);
      expect(second.next).toBeNull();
    });

    test("dead letters can be filtered by their error", async () => {
      const { port, clock } = await start();
      const ids = await populate(port, clock);
      const pick = (...indexes: number[]) => indexes.map((index) => ids[index]!);
      expect(await list(port, { pattern: TIMEOUT })).toEqual(pick(0, 1, 3));
      expect(await list(port, { error: "TIMEOUT" })).toEqual(pick(0, 1, 3));
      expect(await list(port, { error: "notfound: no" })).toEqual(pick(2, 4));
      expect(await list(port, { error: "DISK" })).toEqual(pick(5));
      expect(await list(port, { error: "%" })).toEqual([]);
      expect(await list(port, { error: "c_nnect" })).toEqual([]);
      expect(await list(port, { ids: pick(5, 0) })).toEqual(pick(0, 5));
      expect(await list(port, { ids: pick(5, 0), error: "disk" })).toEqual(pick(5));
      expect(await list(port, { ids: [] })).toEqual([]);
      expect(await list(port, {})).toEqual(ids);
    });

    test("a list of dead letters contains only its own queue", async () => {
      const { port } = await start();
      const other = await makeDead(port, { queue: "other" });
      await addOne(port);
      expect(await list(port)).toEqual([]);
      expect(await list(port, { ids: [other] })).toEqual([]);
    });
  });

  describe("patterns of dead letters", () => {
    test("patterns by fingerprint are sorted by frequency", async () => {
      const { port, clock, startedAt } = await start();
      const ids = await populate(port, clock);
      const found = await port.patterns(QUEUE, "fingerprint", 10);
      expect(found).toEqual([
        {
          pattern: TIMEOUT,
          count: 3,
          share: 0.5,
          firstAt: startedAt,
          lastAt: startedAt + 3 * SECOND,
          sample: { id: ids[3], error: DEATHS[3]!.error },
        },
        {
          pattern: NOBODY,
          count: 2,
          share: 2 / 6,
          firstAt: startedAt + 2 * SECOND,
          lastAt: startedAt + 4 * SECOND,
          sample: { id: ids[4], error: DEATHS[4]!.error },
        },
        expect.objectContaining({ pattern: "Error: Disk is full", count: 1 }),
      ]);
    });

    test("patterns by worker count dead letters per worker", async () => {
      const { port, clock } = await start();
      await populate(port, clock);
      const found = await port.patterns(QUEUE, "worker", 10);
      expect(found.map(({ pattern, count }) => [pattern, count])).toEqual([
        ["a", 4],
        ["b", 1],
        ["c", 1],
      ]);
    });

    test("patterns by header count dead letters per value", async () => {
      const { port, clock } = await start();
      await populate(port, clock);
      const found = await port.patterns(QUEUE, "header:type", 10);
      expect(found.map(({ pattern, count }) => [pattern, count])).toEqual([
        ["letter", 3],
        ["parcel", 2],
        ["", 1],
      ]);
      expect(await port.patterns(QUEUE, "header:constructor", 10)).toMatchObject([{ pattern: "", count: 6 }]);
      expect(await port.patterns(QUEUE, 'header:"a.b$[0]', 10)).toMatchObject([{ pattern: "", count: 6 }]);
    });

    test("patterns returns at most the requested number", async () => {
      const { port, clock } = await start();
      await populate(port, clock);
      expect((await port.patterns(QUEUE, "fingerprint", 1)).map(({ pattern }) => pattern)).toEqual([TIMEOUT]);
    });

    test("patterns returns nothing without dead letters", async () => {
      const { port } = await start();
      expect(await port.patterns(QUEUE, "fingerprint", 10)).toEqual([]);
    });
  });

  describe("discarding dead letters", () => {
    test("discard removes exactly the dead letters that match the filter", async () => {
      const { port, clock } = await start();
      const ids = await populate(port, clock);
      expect(await port.discard(QUEUE, { pattern: TIMEOUT })).toBe(3);
      expect(await list(port)).toEqual([ids[2], ids[4], ids[5]]);
      await refused(() => port.task(ids[0]!), "TASK_NOT_FOUND", ids[0]!);
      await refused(() => port.history(ids[0]!), "TASK_NOT_FOUND");
      expect(await port.discard(QUEUE, { pattern: TIMEOUT })).toBe(0);
      expect(await port.discard(QUEUE, {})).toBe(3);
      expect(await depths(port)).toEqual({});
    });

    test("discard removes no task that is not dead", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      expect(await port.discard(QUEUE, { ids: [id] })).toBe(0);
      expect(await nack(port, await claimOne(port))).toBe("ready");
      expect(await port.discard(QUEUE, {})).toBe(0);
      expect(await depths(port)).toEqual({ ready: 1 });
    });
  });

  test("tasks of every state can be listed, in pages", async () => {
    const { port } = await start();
    const ids = await addNamed(port, ["1", "2", "3", "4", "5"], { groupKey: "g" });
    const waiting = await port.list({ queue: QUEUE, state: "waiting", limit: 3 });
    expect(idsOf(waiting.tasks)).toEqual(ids.slice(1, 4));
    expect(
      idsOf((await port.list({ queue: QUEUE, state: "waiting", limit: 3, after: waiting.next! })).tasks),
    ).toEqual(ids.slice(4));
    expect(idsOf((await port.list({ queue: QUEUE, state: "ready", limit: 9 })).tasks)).toEqual(
      ids.slice(0, 1),
    );
    const held = await claimOne(port);
    expect((await port.list({ queue: QUEUE, state: "claimed", limit: 9 })).tasks).toEqual([
      await port.task(held.id),
    ]);
    await nack(port, held, SECOND);
    expect((await port.list({ queue: QUEUE, state: "scheduled", limit: 9 })).tasks).toEqual([
      await port.task(held.id),
    ]);
    await port.cancel(held.id);
    expect((await port.list({ queue: QUEUE, state: "cancelled", limit: 9 })).tasks).toEqual([
      await port.task(held.id),
    ]);
    for (const state of ["done", "expired", "dead"] as const) {
      expect(await port.list({ queue: QUEUE, state, limit: 9 })).toEqual({ tasks: [], next: null });
    }
  });
}
