// The lines of `dibs top`, from real statistics: what the screen shows of a queue.

import { expect, test } from "vitest";
import { takeSnapshot } from "../../src/cli/top/snapshot.ts";
import { draw } from "../../src/cli/top/view.ts";
import { open } from "../../src/index.ts";
import { ManualClock } from "../../src/testing/index.ts";

test("the knee of a queue is in the list, and explained when the queue is open", async () => {
  const clock = new ManualClock();
  await using dibs = await open(":memory:", { clock });
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
