import { describe, expect, it } from "vitest";
import { latch, openStore, STORES } from "../stores.ts";

const NAMES = Array.from({ length: 60 }, (_, i) => `queue-${i}`);
const EACH = 6;

describe.each(STORES)("a worker of many queues on %s", (store) => {
  it.each([
    { concurrency: 5, prefetch: 0, apart: 2 },
    // Two claims of 35 are in progress, each of one task from 35 queues.
    { concurrency: 20, prefetch: 50, apart: 3 },
  ])("serves all of them in turn, with %o", async ({ concurrency, prefetch, apart }) => {
    const dibs = await openStore(store);
    for (const name of NAMES)
      await dibs.queue(name).addMany(Array.from({ length: EACH }, (_, data) => ({ data })));
    const counts = new Map(NAMES.map((name) => [name, 0]));
    const all = latch();
    let handled = 0;
    let furthest = 0;
    dibs.work(
      NAMES,
      ({ queue }) => {
        counts.set(queue, counts.get(queue)! + 1);
        furthest = Math.max(furthest, Math.max(...counts.values()) - Math.min(...counts.values()));
        if (++handled === NAMES.length * EACH) all.open();
      },
      { order: "fair", concurrency, prefetch },
    );
    await all.promise;
    expect(furthest).toBeLessThanOrEqual(apart);
  });

  it("a worker of many queues does not starve a queue that is far from the busy ones", async () => {
    const dibs = await openStore(store);
    // Between the first two there is none that has tasks.
    const busy = ["queue-1", "queue-2", "queue-50"];
    for (const name of busy)
      await dibs.queue(name).addMany(Array.from({ length: 60 }, (_, data) => ({ data })));
    const seen: string[] = [];
    const enough = latch();
    const worker = dibs.work(
      NAMES,
      ({ queue }) => {
        if (seen.push(queue) === 90) enough.open();
      },
      { order: "fair", concurrency: 6, prefetch: 0 },
    );
    await enough.promise;
    await worker.stop();
    for (const name of busy) {
      const count = seen.slice(0, 90).filter((queue) => queue === name).length;
      expect(count >= 24 && count <= 36, `${name}: ${count}`).toBe(true);
    }
  });
});
