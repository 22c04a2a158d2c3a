import { expect, test } from "vitest";
import { ManualClock } from "../../src/testing/index.ts";
import { open } from "../../src/api/open.ts";

test("the statistics of a queue come with advice", async () => {
  const clock = new ManualClock();
  await using dibs = await open(":memory:", { clock });
  const queue = dibs.queue("emails");
  await queue.addMany(Array.from({ length: 60 }, (_, i) => ({ data: i })));
  const { advice } = await queue.stats();
  expect(advice).toMatchObject({ verdict: "worker-bound", workers: { now: 0, needed: null } });

  for (const claim of await queue.claim({ max: 30, lease: "1m" })) {
    await clock.advance(1_000);
    await claim.ack();
  }
  const later = (await queue.stats()).advice;
  expect(later.knee.arrivals).toBe(1);
  expect(later.workers.needed).toBeGreaterThan(15);
  expect(later.lease?.recommended).toBe(60_000);
});
