import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import type { NewTask } from "../../../src/core/task/task.ts";
import { channelOf } from "../../../src/engines/postgres/connection/notifier.ts";
import { type AddOptions, type Dibs, open, type Task } from "../../../src/index.ts";
import { PostgresServer } from "../../postgres/server.ts";
import { ground, proxyTo, untilOneWaits } from "./kit.ts";
import { run } from "./verbs.ts";

/** A waiting worker in another process: it claims each task alone, as soon as it is ready. */
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

test("a claim sent ahead returns all fields of a task, and is counted", async () => {
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

test("a claim sent ahead of the header follows the queue's current policy", async () => {
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

test("a claim sent ahead of the header emits events", async () => {
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

test("a claim sent ahead survives a crash of the server, and its worker keeps it", async () => {
  // Nothing reaches the disk by itself before the server crashes.
  const server = await PostgresServer.start({ settings: { wal_writer_delay: "10s" } });
  onTestFinished(() => server.remove());
  const [near, far] = [await open(server.url), await open(server.url)];
  onTestFinished(() => near.close());
  onTestFinished(() => far.close());
  const queue = near.queue<number>("work");
  const hasCrashed = Promise.withResolvers<void>();
  const started = Promise.withResolvers<Task<number>>();
  const worker = far.queue<number>("work").work(async (task) => {
    started.resolve(task);
    await hasCrashed.promise;
  });
  await worker.ready;
  const added = await queue.add(7);
  const { fence } = await started.promise;
  await server.stop("immediate");
  await server.restart();
  hasCrashed.resolve();
  await added.result();
  expect(await added.history()).toMatchObject([{ fence, outcome: "done" }]);
  await worker.stop();
});

test("a claim whose connection was lost while it waited for a lock takes no task", async () => {
  const place = await ground();
  const { proxy, url } = await proxyTo(place.url);
  const [near, far] = [await place.open(), await place.open({}, url)];
  const queue = near.queue("work");
  const worker = waitingWorker(far);
  const before = await queue.add(1);
  await worker.next();
  await before.result();
  const blocker = await place.client();
  await blocker.query(`BEGIN; SELECT 1 FROM ${place.schema}.session FOR UPDATE`);
  const added = await queue.add(2);
  const isClaim = `WITH calm%${place.schema}`;
  await untilOneWaits(blocker, isClaim);
  proxy.cut();
  proxy.mend();
  await blocker.query("ROLLBACK");
  expect(await worker.next()).toMatchObject({ id: added.id, data: 2 });
  await added.result();
  await worker.stop();
});

test("an add sent ahead of the header follows the queue's current policy", async () => {
  const { open, client, schema } = await ground();
  const [near, far] = [await open(), await open()];
  const queue = near.queue("work");
  await queue.add("first");
  await far.queue("work").configure({ maxPayload: 100 });
  await expect(queue.add("x".repeat(200))).rejects.toMatchObject({ code: "PAYLOAD_TOO_LARGE" });
  await far.queue("work").configure({ maxPayload: 10_000, ttl: "1h" });
  expect((await (await queue.add("short-lived")).info()).expiresAt).not.toBeNull();
  await far.queue("work").delete();
  const [anew] = await queue.addMany([{ data: "anew" }]);
  expect((await queue.stats()).depth.ready).toBe(1);
  const events = far.events();
  const heard = events.next();
  await vi.waitFor(async () => {
    const { rowCount } = await (await client()).query(`SELECT 1 FROM ${schema}.listener`);
    expect(rowCount).toBe(1);
  });
  const { id } = await queue.add("told");
  expect((await heard).value).toMatchObject({ type: "task.added", taskId: id });
  await events.return!();
  expect(anew!.id).not.toBe(id);
});

const CUT = "\u001e";

test.each<[what: string, tasks: Omit<NewTask, "queue">[]]>([
  ["texts", [{ data: "1" }, { data: "2", headers: { a: "x" } }, { data: "\u0000\u0001" }, { data: "4" }]],
  ["a text with the sign between them", [{ data: "1" }, { data: `2${CUT}2` }, { data: CUT }]],
  ["a text that is empty", [{ data: "1" }, { data: "" }, { data: "3", headers: { a: CUT } }]],
  ["bytes among texts", [{ data: "1" }, { data: new Uint8Array([0, 30]) }, { data: "3" }]],
])("tasks added together come back unchanged: %s", async (_, tasks) => {
  const engine = await (await ground()).engine();
  const shown = tasks.map(({ data, headers = {} }) => ({ data, headers }));
  // The first add to a queue is not sent ahead, and neither is one with a group.
  for (const more of [{}, {}, { groupKey: "g" }]) {
    const added = await run(engine, {
      verb: "add",
      tasks: tasks.map((task) => ({ queue: "work", ...task, ...more })),
    });
    const found = await Promise.all(added.map(({ id }) => run(engine, { verb: "get", id })));
    expect(found).toMatchObject(shown);
  }
});

test("tasks added in one batch get distinct numbers, although other transactions take some in between", async () => {
  const { engine, client, schema } = await ground();
  const here = await engine();
  const tasks = ["1", "2", "3"].map((data) => ({ queue: "work", data }));
  await run(here, { verb: "add", tasks });
  // As if other transactions took numbers all the time.
  await (
    await client()
  ).query(`
    CREATE FUNCTION ${schema}.take() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM nextval('${schema}.seq'); RETURN NEW; END $$;
    CREATE TRIGGER take BEFORE INSERT ON ${schema}.task FOR EACH ROW EXECUTE FUNCTION ${schema}.take()`);
  const added = await run(here, { verb: "add", tasks });
  const found = await Promise.all(added.map(({ id }) => run(here, { verb: "get", id })));
  expect(found.map(({ data }) => data)).toEqual(["1", "2", "3"]);
});

test("an add notifies other processes exactly once", async () => {
  const { open, client, schema } = await ground();
  const near = await open();
  const queue = near.queue("work");
  await queue.add(0);
  const listener = await client();
  const heard: string[] = [];
  listener.on("notification", ({ payload }) => heard.push(payload!));
  await listener.query(`LISTEN ${channelOf(schema)}`);
  for (const options of [{}, { priority: 1 }]) {
    heard.length = 0;
    await queue.add(1, options);
    await vi.waitFor(() => expect(heard).not.toEqual([]));
    await sleep(50);
    expect(heard.filter((word) => word.includes("work"))).toHaveLength(1);
  }
});

test("a process notices that its store was dropped and created again, and new ids are valid", async () => {
  const place = await ground();
  const near = await place.open();
  for (const data of ["makes the queue", "is sent ahead"]) await near.queue("work").add(data);
  await (await place.client()).query(`DROP SCHEMA ${place.schema} CASCADE`);
  const far = await place.open();
  await far.queue("work").add(2);
  const added = await near.queue("work").add(3);
  expect(await added.cancel()).toBe("cancelled");
});
