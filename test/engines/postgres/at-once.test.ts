import { expect, onTestFinished, test, vi } from "vitest";
import { Link } from "../../../src/engines/postgres/link.ts";
import { type AddOptions, type Dibs, open, type Task } from "../../../src/index.ts";
import { PostgresServer } from "../../postgres/server.ts";
import { ground } from "./kit.ts";

/** A worker elsewhere that waits: each task is claimed by itself, as soon as it is there. */
function waitingWorker(dibs: Dibs): { next: () => Promise<Task>; stop: () => Promise<void> } {
  let arrival = Promise.withResolvers<Task>();
  const worker = dibs.queue("work").work((task) => arrival.resolve(task));
  return {
    next: async () => {
      const task = await arrival.promise;
      arrival = Promise.withResolvers();
      return task;
    },
    stop: () => worker.stop(),
  };
}

test("a claim that is carried out at once brings all a task has, and is counted", async () => {
  const { open } = await ground();
  const [near, far] = [await open(), await open()];
  const queue = near.queue("work");
  const worker = waitingWorker(far);
  const given: [data: unknown, options: AddOptions, shown: Partial<Task>][] = [
    [{ n: 1 }, {}, { groupKey: null, maxAttempts: 5 }],
    ["\u0000 and \u0001", { headers: { trace: "x" }, ttl: "1h" }, { headers: { trace: "x" } }],
    [[1, "two"], { groupKey: "g", maxAttempts: 7 }, { groupKey: "g", maxAttempts: 7 }],
    [null, { priority: 5 }, { priority: 5 }],
  ];
  for (const [data, options, shown] of given) {
    const added = await queue.add(data, options);
    expect(await worker.next()).toMatchObject({ id: added.id, data, attempt: 1, ...shown });
    await added.result();
  }
  const { depth, waitTime } = await queue.stats();
  expect(depth).toMatchObject({ ready: 0, waiting: 0, claimed: 0, done: given.length });
  expect(waitTime).not.toBeNull();
  await worker.stop();
});

test("a claim that was sent before it was known what the queue is like now goes by what it is like", async () => {
  const { open } = await ground();
  const [near, far] = [await open(), await open()];
  const queue = near.queue("work");
  const worker = waitingWorker(far);
  await queue.add(1);
  await worker.next();
  await queue.configure({ maxAttempts: 9 });
  await queue.add(2);
  expect(await worker.next()).toMatchObject({ data: 2, maxAttempts: 9 });
  await queue.pause();
  const third = await queue.add(3);
  await far.queue("other").add(0);
  expect((await third.info()).state).toBe("ready");
  await queue.resume();
  expect(await worker.next()).toMatchObject({ data: 3 });
  await worker.stop();
});

test("whoever follows the events is told of claims that would be carried out at once", async () => {
  const { open } = await ground();
  const [near, far] = [await open(), await open()];
  const queue = near.queue("work");
  const worker = waitingWorker(far);
  const before = await queue.add(1);
  await worker.next();
  await before.result();
  const events = near.events();
  const first = events.next();
  const added = await queue.add(2);
  await worker.next();
  await added.result();
  const types = [(await first).value!.type];
  while (types.length < 3) types.push((await events.next()).value!.type);
  expect(types).toEqual(["task.added", "task.claimed", "task.done"]);
  await worker.stop();
});

test("a claim that a crash of the server undoes is in line again, and its first holder cannot settle it", async () => {
  // Nothing reaches the disk by itself before the server crashes.
  const server = await PostgresServer.start({ settings: { wal_writer_delay: "10s" } });
  onTestFinished(() => server.remove());
  const [near, far] = [await open(server.url), await open(server.url)];
  onTestFinished(() => near.close());
  onTestFinished(() => far.close());
  const queue = near.queue<number>("work");
  const seen: Task<number>[] = [];
  const hasCrashed = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  const lost = Promise.withResolvers<unknown>();
  const worker = far.queue<number>("work").work(async (task) => {
    seen.push(task);
    if (seen.length > 1) return;
    started.resolve();
    await hasCrashed.promise;
    await task.ack().catch(lost.resolve);
  });
  await worker.ready;
  const added = await queue.add(7);
  await started.promise;
  await server.stop("immediate");
  await server.restart();
  hasCrashed.resolve();
  expect(await lost.promise).toMatchObject({ code: "CLAIM_LOST" });
  await added.result();
  const [first, second] = seen;
  expect(second).toMatchObject({ id: added.id, data: 7, attempt: 1 });
  expect(second!.fence).toBeGreaterThan(first!.fence);
  expect(await added.history()).toMatchObject([{ fence: second!.fence, outcome: "done" }]);
  await worker.stop();
});

test("a claim is on disk before it is answered where a crash of the server would not be noticed", async () => {
  const begun = vi.spyOn(Link.prototype, "exec");
  onTestFinished(() => begun.mockRestore());
  const lazily = (): number =>
    begun.mock.calls.filter(([sql]) => sql.includes("synchronous_commit = off")).length;
  const place = await ground();
  const near = await place.open();
  const claimOne = async (): Promise<void> => {
    const far = await place.open();
    const worker = waitingWorker(far);
    const added = await near.queue("work").add(1);
    await worker.next();
    await added.result();
    await worker.stop();
    await far.close();
  };
  await claimOne();
  expect(lazily()).toBeGreaterThan(0);
  await (await place.client()).query(`ALTER TABLE ${place.schema}.life SET LOGGED`);
  begun.mockClear();
  await claimOne();
  expect(lazily()).toBe(0);
});
