import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { type Dibs, move, open, type Task } from "../../src/index.ts";
import { hooked } from "./hooked.ts";

async function store(): Promise<Dibs> {
  const dibs = await open(":memory:");
  onTestFinished(() => dibs.close());
  return dibs;
}

async function two(): Promise<[Dibs, Dibs]> {
  return [await store(), await store()];
}

async function queueOf(dibs: Dibs, name = "work") {
  return (await dibs.queues()).find((queue) => queue.name === name);
}

test("a queue comes with its policy and its pause, and is paused where it was", async () => {
  const [from, to] = await two();
  await from.queue("work", { maxAttempts: 9, lease: "7s" }).add(1);
  await from.queue("work").pause();
  await from.queue("other").add(2);
  expect(await move(from, to)).toEqual({
    moved: 2,
    left: 0,
    queues: [
      { name: "other", moved: 1, paused: false },
      { name: "work", moved: 1, paused: true },
    ],
    schedules: [],
  });
  expect(await queueOf(to)).toMatchObject({ paused: true, policy: { maxAttempts: 9, lease: 7_000 } });
  expect(await queueOf(to, "other")).toMatchObject({ paused: false });
  expect(await queueOf(from, "other")).toMatchObject({ paused: true });
});

test("the policy that the other store has set for a queue stays", async () => {
  const [from, to] = await two();
  await from.queue("work", { maxAttempts: 9 }).add(1);
  await to.queue("work", { maxAttempts: 2 }).stats();
  await move(from, to);
  expect(await queueOf(to)).toMatchObject({ policy: { maxAttempts: 2 } });
});

describe("an operator's pause", () => {
  test("arrives before the first task does, also where workers have made the queue", async () => {
    const [from, to] = await two();
    await from.queue("work").add(1);
    await from.queue("work").pause();
    const started: unknown[] = [];
    const worker = to.queue("work", { maxAttempts: 2 }).work((task) => void started.push(task.data));
    await worker.ready;
    await move(from, to);
    expect(await queueOf(to)).toMatchObject({ paused: true });
    expect(started).toEqual([]);
    await worker.stop();
  });

  test("arrives though the first run was interrupted; that of the move does not", async () => {
    const [from, to] = await two();
    for (const name of ["held", "work"]) await from.queue(name).add(1);
    await from.queue("held").pause();
    await to.queue("held", { maxAttempts: 2 }).stats();
    // Killed right after the pause of each queue.
    for (const last of ["held", "work"]) {
      const dying = hooked(from, "pause", async (call, name) => {
        await call();
        if (name === last) throw new Error("killed");
      });
      await expect(move(dying, to)).rejects.toThrow("killed");
    }
    expect(await queueOf(from)).toMatchObject({ paused: true });
    await move(from, to);
    expect(await queueOf(to, "held")).toMatchObject({ paused: true });
    expect(await queueOf(to)).toMatchObject({ paused: false });
  });

  test("arrives once: who has resumed the queue there finds it so after the next run", async () => {
    const [from, to] = await two();
    await from.queue("work").add(1);
    await from.queue("work").pause();
    await move(from, to);
    await to.queue("work").resume();
    await from.queue("work").add(2);
    expect(await move(from, to)).toMatchObject({ moved: 1, queues: [{ paused: false }] });
    // Somebody who does not know of the move pauses the queue where it was.
    await from.queue("work").pause();
    expect(await move(from, to)).toMatchObject({ queues: [{ paused: true }] });
  });

  test("is not that of a move before, to another store or back", async () => {
    const [from, to] = await two();
    const third = await store();
    await from.queue("work").add(1);
    await move(from, to);
    await from.queue("work").add(2);
    expect(await move(from, third)).toMatchObject({ moved: 1, queues: [{ paused: false }] });
    await move(to, from);
    expect(await queueOf(from)).toMatchObject({ paused: true });
    await from.queue("work").resume();
    await from.queue("work").pause();
    expect(await move(from, third)).toMatchObject({ queues: [{ paused: true }] });
  });
});

describe("runs of pipelines that are under way", () => {
  function pipelineOf(dibs: Dibs, name: string) {
    const pass = (task: Task<number>) => task.data + 1;
    return dibs.pipeline<number>(name).stage("first", pass).stage("second", pass);
  }

  test("are refused before anything is paused, all queues at once, and end", async () => {
    const [from, to] = await two();
    await from.queue("plain").add(1);
    const runs = [await pipelineOf(from, "a").add(1), await pipelineOf(from, "b").add(1)];
    const before = await from.queues();
    await expect(move(from, to)).rejects.toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringMatching(/^Queues "a\/first", "b\/first" hold .* let these end, or cancel/),
    });
    // Only the stage that comes next: paused, it would never be done.
    await expect(move(from, to, { queues: ["a/second"] })).rejects.toMatchObject({ code: "UNSUPPORTED" });
    expect(await from.queues()).toEqual(before);
    expect(await to.queues()).toEqual([]);
    expect(await move(from, to, { queues: ["plain"] })).toMatchObject({ moved: 1 });
    const workers = ["a", "b"].map((name) => pipelineOf(from, name).work());
    expect(await Promise.all(runs.map((run) => run.result()))).toEqual([3, 3]);
    await Promise.all(workers.map((worker) => worker.stop()));
    expect(await move(from, to)).toMatchObject({ left: 0 });
  });

  test("that begin during the move are refused too, and go on to their end", async () => {
    const [from, to] = await two();
    await pipelineOf(from, "a")
      .add(1)
      .then((run) => run.cancel());
    await from.queue("a/second").pause();
    await from.queue("plain").add(1);
    const late: { result(): Promise<unknown> }[] = [];
    const busy = hooked(from, "pause", async (call, name) => {
      await call();
      if (name === "a/second") late.push(await pipelineOf(from, "a").add(1));
    });
    await expect(move(busy, to)).rejects.toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringMatching(/Queue "a\/first" .* goes on here/),
    });
    expect(await queueOf(from, "a/first")).toMatchObject({ paused: false });
    // As its operator had it.
    expect(await queueOf(from, "a/second")).toMatchObject({ paused: true });
    await from.queue("a/second").resume();
    const worker = pipelineOf(from, "a").work();
    expect(await late[0]!.result()).toBe(3);
    await worker.stop();
    expect(await move(from, to)).toMatchObject({ left: 0 });
  });
});

describe("what the new store needs to work as the old one did", () => {
  test("subscriptions come along, before the first task", async () => {
    const [from, to] = await two();
    const seen = await from.subscription("orders.*", "mail", { maxAttempts: 3 }).stats();
    await from.topic("orders.placed").publish(1);
    await from.queue("first").add(0);
    const looked: unknown[] = [];
    const watching = hooked(to, "arrive", async (call, tasks) => {
      if ((tasks as unknown[]).length > 0) looked.push((await to.subscriptions()).map(({ group }) => group));
      return call();
    });
    await move(from, watching);
    expect(looked).toEqual([["mail"], ["mail"]]);
    await to.topic("orders.placed").publish(2);
    expect(await queueOf(to, seen.queue)).toMatchObject({ policy: { maxAttempts: 3 } });
    expect((await to.queue(seen.queue).stats()).depth.ready).toBe(2);
    // One that was removed there stays so.
    await to.unsubscribe("orders.*", "mail");
    await move(from, to);
    expect(await to.subscriptions()).toEqual([]);
  });

  test("not those of queues that stay", async () => {
    const [from, to] = await two();
    await from.subscription("orders.*", "mail").stats();
    await from.queue("work").add(1);
    await move(from, to, { queues: ["work"] });
    expect(await to.subscriptions()).toEqual([]);
  });

  test("schedules stay behind, and are named", async () => {
    const [from, to] = await two();
    await from.queue("work").add(1);
    await from.schedule("nightly", { cron: "0 3 * * *" }, { queue: "work" }).ready;
    await from.schedule("hourly", { every: "1h" }, { queue: "other" }).ready;
    expect(await move(from, to, { queues: ["work"] })).toMatchObject({ schedules: ["nightly"] });
    expect(await to.schedules()).toEqual([]);
  });
});

describe("a store that is not there", () => {
  test("is not made to be moved from", async () => {
    const folder = mkdtempSync(join(tmpdir(), "dibs-move-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    await expect(move(join(folder, "wrok.db"), join(folder, "to.db"))).rejects.toMatchObject({
      ...{ code: "INVALID", message: expect.stringContaining("wrok.db") },
    });
    expect(readdirSync(folder)).toEqual([]);
  });

  test("nor is the other one made where a queue is not there; those there are are named", async () => {
    const folder = mkdtempSync(join(tmpdir(), "dibs-move-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const from = await store();
    const nowhere = move(from, join(folder, "to.db"), { queues: ["nope"] });
    await expect(nowhere).rejects.toThrow(/no queue "nope" .* Those there are: none/);
    for (const name of ["work", "other"]) await from.queue(name).add(1);
    await expect(move(from, join(folder, "to.db"), { queues: ["work", "nope"] })).rejects.toMatchObject({
      ...{
        code: "INVALID",
        message: expect.stringMatching(/no queue "nope" .* Those there are: other, work/),
      },
    });
    expect(readdirSync(folder)).toEqual([]);
    expect(await queueOf(from)).toMatchObject({ paused: false });
  });
});

test("only the queues that are named move", async () => {
  const [from, to] = await two();
  await from.queue("work").add(1);
  await from.queue("other").add(2);
  expect(await move(from, to, { queues: ["work"] })).toMatchObject({ moved: 1 });
  expect(await queueOf(from, "other")).toMatchObject({ paused: false });
  expect(await queueOf(to, "other")).toBeUndefined();
});

test("it waits for what runs, says so, and can be told to stop waiting", async () => {
  const [from, to] = await two();
  const task = await from.queue<number, string>("work").add(1);
  const [claim] = await from.queue<number, string>("work").claim();
  const stop = new AbortController();
  const stopped = move(from, to, { signal: stop.signal });
  stop.abort();
  expect(await stopped).toMatchObject({ moved: 0, left: 1 });
  const { promise: waiting, resolve: onWait } = Promise.withResolvers();
  const moving = move(from, to, { onWait });
  expect(await waiting).toEqual({ running: 1, error: null });
  await claim!.ack("done");
  expect(await moving).toMatchObject({ moved: 1, left: 0 });
  expect(await to.task(task.id).result()).toBe("done");
  await expect(from.task(task.id).result()).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
});

test("it follows what is added until it is told to stop", async () => {
  const [from, to] = await two();
  const stop = new AbortController();
  const following = move(from, to, { follow: true, signal: stop.signal });
  await from.queue<number>("work").add(1);
  const [claim] = await to.queue<number>("work").claim({ wait: "20s" });
  expect(claim!.data).toBe(1);
  stop.abort();
  expect(await following).toMatchObject({ moved: 1, left: 0 });
});

test("refuses what it cannot do, and changes nothing", async () => {
  const [from, to] = await two();
  await from.queue("work").add(1);
  await expect(move(from, from)).rejects.toMatchObject({ code: "INVALID" });
  expect(await queueOf(from)).toMatchObject({ paused: false });
  const wrong: unknown[][] = [
    [from, ""],
    [1, to],
    [from, to, { speed: 1 }],
    [from, to, { queues: "work" }],
    [from, to, { queues: ["no name "] }],
    [from, to, { follow: true }],
    [from, to, { from: {} }],
    [from, "to.db", { to: { speed: 1 } }],
    [":memory:", to],
  ];
  for (const given of wrong) {
    await expect(move(...(given as [Dibs, Dibs]))).rejects.toMatchObject({ code: "INVALID" });
  }
  expect(await queueOf(to)).toBeUndefined();
});
