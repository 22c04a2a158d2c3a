import { expect, onTestFinished, test } from "vitest";
import { type Dibs, move, open } from "../../src/index.ts";

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
  });
  expect(await queueOf(to)).toMatchObject({ paused: true, policy: { maxAttempts: 9, lease: 7_000 } });
  expect(await queueOf(to, "other")).toMatchObject({ paused: false });
  expect(await queueOf(from, "other")).toMatchObject({ paused: true });
});

test("what the other store has set for a queue stays", async () => {
  const [from, to] = await two();
  await from.queue("work", { maxAttempts: 9 }).add(1);
  await from.queue("work").pause();
  await to.queue("work", { maxAttempts: 2 }).stats();
  await move(from, to);
  expect(await queueOf(to)).toMatchObject({ paused: false, policy: { maxAttempts: 2 } });
});

test("only the queues that are named move", async () => {
  const [from, to] = await two();
  await from.queue("work").add(1);
  await from.queue("other").add(2);
  expect(await move(from, to, { queues: ["work"] })).toMatchObject({ moved: 1 });
  expect(await queueOf(from, "other")).toMatchObject({ paused: false });
  expect(await queueOf(to, "other")).toBeUndefined();
});

test("it waits for what runs, and can be told to stop waiting", async () => {
  const [from, to] = await two();
  const task = await from.queue<number, string>("work").add(1);
  const [claim] = await from.queue<number, string>("work").claim();
  const stop = new AbortController();
  const stopped = move(from, to, { signal: stop.signal });
  stop.abort();
  expect(await stopped).toMatchObject({ moved: 0, left: 1 });
  const moving = move(from, to);
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
  ];
  for (const given of wrong) {
    await expect(move(...(given as [Dibs, Dibs]))).rejects.toMatchObject({ code: "INVALID" });
  }
  expect(await queueOf(to)).toBeUndefined();
});
