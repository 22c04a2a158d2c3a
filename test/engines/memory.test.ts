import { expect, onTestFinished, test } from "vitest";
import { openPort } from "../../src/api/open.ts";

test("a store in memory with 200,000 tasks answers statistics, and does its housekeeping", async () => {
  const errors: string[] = [];
  const logger = { warn: () => {}, error: (message: string) => void errors.push(message) };
  const store = await openPort(":memory:", { logger, poll: "100ms" });
  onTestFinished(() => store.close());
  const tasks = Array.from({ length: 1_000 }, () => ({ queue: "q", data: "1", ttl: 3_600_000 }));
  for (let added = 0; added < 200_000; added += 1_000) await store.add(tasks);
  expect((await store.stats("q")).depth.ready).toBe(200_000);
  // The housekeeper makes this one ready.
  await store.add([{ queue: "later", data: "1", delay: 1 }]);
  await store.claim({ queues: ["later"], max: 1, worker: "w", wait: 20_000 });
  expect(errors).toEqual([]);
});
