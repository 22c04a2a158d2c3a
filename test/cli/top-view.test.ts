// The lines of `dibs top`, from real statistics: what the screen shows of a queue.

import { describe, expect, test } from "vitest";
import { takeSnapshot } from "../../src/cli/top/snapshot.ts";
import { draw, type Size } from "../../src/cli/top/view.ts";
import { clipPainted, widthOf } from "../../src/cli/width.ts";
import { open as openStore } from "../../src/index.ts";
import { ManualClock } from "../../src/testing/index.ts";
import { until } from "../e2e/harness/stage.ts";

describe("in a small terminal", () => {
  const LONG = "topic/order.:one/customer-news-by-mail";

  async function shown(size: Size, open: string | null = null): Promise<string[]> {
    await using dibs = await openStore(":memory:");
    for (const name of ["chores", LONG, "zzz"]) await dibs.queue(name).addMany([{ data: "漢字".repeat(50) }]);
    const worker = dibs.queue(LONG).work(() => new Promise(() => {}), { name: "a-worker-with-a-long-name" });
    await until("it runs", async () => (await dibs.queue(LONG).stats()).depth.claimed === 1);
    const snapshot = await takeSnapshot(dibs);
    void worker.stop({ timeout: 0 });
    return draw(snapshot, { selected: 2, open, message: "m".repeat(300), address: "work.db" }, size);
  }

  test.each([
    [80, 24],
    [60, 12],
    [30, 8],
    [10, 5],
  ])(
    "no line is longer than %i columns, and the selected queue is among the %i rows",
    async (columns, rows) => {
      for (const open of [null, LONG]) {
        const lines = await shown({ columns, rows }, open);
        expect(lines.length).toBeLessThanOrEqual(rows);
        expect(Math.max(...lines.map(widthOf))).toBeLessThanOrEqual(columns);
      }
      if (rows > 5) expect((await shown({ columns, rows })).join("\n")).toContain("▸ zzz");
    },
  );

  test("80 columns are enough for the figures of a queue", async () => {
    const head = (await shown({ columns: 80, rows: 24 })).find((line) => line.includes("QUEUE"))!;
    expect(head.trim().split(/ +/)).toEqual([
      ...["QUEUE", "LINE", "READY", "CLAIMED", "DEAD", "IN/S", "OUT/S", "WORKERS", "KNEE"],
    ]);
  });
});

test("a coloured line is cut to its visible width, and its colour ends", () => {
  const line = `ab\u001b[31mcdef\u001b[0mgh`;
  expect(clipPainted(line, 8)).toBe(line);
  expect(clipPainted(line, 5)).toBe(`ab\u001b[31mcd…\u001b[0m`);
  expect(clipPainted(line, 6)).toBe(`ab\u001b[31mcde…\u001b[0m`);
  expect(clipPainted("plain text", 6)).toBe("plain…");
});

test("the knee of a queue is in the list, and explained when the queue is open", async () => {
  const clock = new ManualClock();
  await using dibs = await openStore(":memory:", { clock });
  const queue = dibs.queue("emails");
  // Two tasks per second that take a second each.
  for (let second = 0; second < 30; second++) {
    await queue.addMany([{ data: 1 }, { data: 2 }]);
    const claims = await queue.claim({ max: 2 });
    await clock.advance(1_000);
    for (const claim of claims) await claim.ack();
  }
  const snapshot = await takeSnapshot(dibs);
  const { knee } = snapshot.queues[0]!.advice;
  expect(knee.workers).toBeGreaterThan(0);
  const view = { selected: 0, open: null, message: null, address: "work.db" };
  const list = draw(snapshot, view, { columns: 160, rows: 30 });
  expect(list.find((line) => line.includes("QUEUE"))).toMatch(/WORKERS +KNEE/);
  const shown = draw(snapshot, { ...view, open: "emails" }, { columns: 160, rows: 30 }).join("\n");
  expect(shown).toMatch(/The knee is at [\d.]+ workers: a worker does [\d.]+\/s and [\d.]+\/s arrive\./);
});
