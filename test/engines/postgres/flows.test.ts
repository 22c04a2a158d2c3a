import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { isDibsError } from "../../../src/core/errors/errors.ts";
import { ground } from "./kit.ts";

const QUICK = { backoff: { type: "fixed", delay: 0, jitter: 0 }, elsewhere: 0, maxAttempts: 100 } as const;

test("a signal that arrives while its task is claimed or about to be parked is not lost", async () => {
  const { open } = await ground();
  const [here, there] = [await open(), await open()];
  const queue = here.queue<number, number>("work", QUICK);
  const tasks = await queue.addMany(Array.from({ length: 150 }, (_, n) => ({ data: n })));
  const worker = queue.work(async (task) => (await task.waitFor<number>("go")) + 1, { concurrency: 30 });
  const kept = await Promise.all(
    tasks.map(async ({ id }, n) => {
      await sleep(Math.random() * 300);
      return there.task(id).signal("go", n);
    }),
  );
  expect(kept.every(Boolean)).toBe(true);
  const results = await Promise.all(tasks.map((task) => task.result({ timeout: "30s" })));
  expect(results).toEqual(tasks.map((_, n) => n + 1));
  await worker.stop();
  const { depth } = await queue.stats();
  expect(depth).toMatchObject({ done: 150, parked: 0, claimed: 0, ready: 0, scheduled: 0 });
});

test("verdicts, cancels and groups of several processes leave no task stuck, and show none too early", async () => {
  const { open } = await ground();
  const [here, there] = [await open(), await open()];
  const stops: (() => Promise<void>)[] = [];
  const accepted = new Set<string>();
  for (const dibs of [here, there]) {
    const queue = dibs.queue<number, { n: number; attempt: number }>("work", QUICK);
    const verifier = queue.verify(
      async (task) => {
        await sleep(Math.random() * 3);
        if (Math.random() < 0.1) throw new Error("the verifier broke");
        if (Math.random() < 0.3) return { refuse: "again" };
        accepted.add(task.id);
        return true;
      },
      { concurrency: 10 },
    );
    await verifier.ready;
    const worker = queue.work(
      async (task) => {
        await sleep(Math.random() * 3);
        if (task.attempt > 1 && !task.feedback) throw new Error("nobody said why");
        await task.add(dibs.queue("next"), task.data);
        return { n: task.data, attempt: task.attempt };
      },
      { concurrency: 10 },
    );
    stops.push(
      () => verifier.stop(),
      () => worker.stop(),
    );
  }
  const tasks = await here
    .queue<number, { n: number }>("work")
    .addMany(
      Array.from({ length: 120 }, (_, n) => ({ data: n, ...(n % 3 === 0 && { groupKey: `g${n % 4}` }) })),
    );
  const cancelling = tasks.filter((_, n) => n % 10 === 7).map((task) => there.task(task.id).cancel());
  const ends = await Promise.all(
    tasks.map(async (task) => {
      try {
        return (await task.result({ timeout: "40s" })).n;
      } catch (error) {
        if (isDibsError(error) && error.code === "TASK_CANCELLED") return "cancelled";
        throw error;
      }
    }),
  );
  await Promise.all(cancelling);
  await Promise.all(stops.map((stop) => stop()));
  const done = ends.filter((end) => end !== "cancelled");
  for (const [n, end] of ends.entries())
    if (end !== "cancelled") expect([end, accepted.has(tasks[n]!.id)]).toEqual([n, true]);
  expect((await here.queue("work").stats()).depth).toMatchObject({
    ...{ done: done.length, cancelled: tasks.length - done.length },
    ...{ ready: 0, waiting: 0, scheduled: 0, claimed: 0, verifying: 0, dead: 0 },
  });
  expect((await here.queue("next").stats()).depth.ready).toBe(done.length);
});
