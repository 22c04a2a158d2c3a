import { describe, expect, test } from "vitest";
import { eachEvent } from "../each-event.ts";
import type { ClaimNotice } from "../../src/core/task/claim-call.ts";
import type { Port } from "../../src/core/port.ts";
import type { ClaimedTask } from "../../src/core/task/task.ts";
import { Served } from "./served.ts";

const QUEUE = "work";

async function addNamed(port: Port, ...names: string[]): Promise<void> {
  await port.add(names.map((data) => ({ queue: QUEUE, data })));
}

async function claimAll(port: Port, session?: number): Promise<ClaimedTask[]> {
  const claimCall = { queues: [QUEUE], max: 1_000, worker: "w", wait: 0 };
  return (await port.claim(session === undefined ? claimCall : { ...claimCall, session })).tasks;
}

function waiting(port: Port, worker = "other"): Promise<ClaimedTask[]> {
  return port.claim({ queues: [QUEUE], max: 1, worker, wait: 60_000 }).then(({ tasks }) => tasks);
}

async function join(port: Port, lease = 30_000) {
  const notices: ClaimNotice[] = [];
  const told = Promise.withResolvers<ClaimNotice>();
  const worker = { id: "w", name: "w", queues: [QUEUE], concurrency: 1, host: "here", pid: 1 };
  const session = await port.join(worker, lease, (notice) => {
    notices.push(notice);
    told.resolve(notice);
  });
  return { session, notices, told: told.promise };
}

const ack = { kind: "ack", result: null } as const;

describe("a connection that is lost and resumed in time", () => {
  test("a resumed connection loses no call and repeats none, however often it is cut", async () => {
    const served = await Served.start();
    const port = await served.open();
    const adds: Promise<unknown>[] = [];
    for (let round = 0; round < 20; round++) {
      for (let n = 0; n < 25; n++) adds.push(addNamed(port, `${round}.${n}`));
      // Between calls, during a write, or while answers arrive.
      if (round % 3 > 0) await new Promise((resolve) => setImmediate(resolve));
      if (round % 3 > 1) await adds.at(-1);
      served.proxy.cut();
      served.proxy.mend();
    }
    await Promise.all(adds);
    const names = (await claimAll(served.store)).map(({ data }) => data);
    expect(names).toHaveLength(500);
    expect(new Set(names).size).toBe(500);
  });

  test("a resumed connection keeps the claims of its workers, and waiting calls continue to wait", async () => {
    const served = await Served.start();
    const port = await served.open();
    const { session, notices } = await join(port);
    await addNamed(port, "held");
    const [held] = await claimAll(port, session);
    const next = waiting(port);
    await port.stats(QUEUE);
    served.proxy.cut();
    served.proxy.mend();
    await addNamed(served.store, "next");
    expect((await next).map(({ data }) => data)).toEqual(["next"]);
    expect(await port.settle(held!, ack)).toEqual({ state: "done" });
    expect(notices).toEqual([]);
  });

  test("a resumed connection continues the events where they were", async () => {
    const served = await Served.start();
    const port = await served.open();
    const stop = new AbortController();
    const events = eachEvent(port.events(stop.signal));
    await port.declare(QUEUE, {});
    expect((await events.next()).value).toMatchObject({ type: "queue.created" });
    served.proxy.cut();
    served.proxy.mend();
    await addNamed(served.store, "x");
    expect((await events.next()).value).toMatchObject({ type: "task.added" });
    stop.abort();
  });
});

describe("a connection that is not resumed in time", () => {
  test("a connection that is not resumed loses its workers' claims at once, as failures, and the workers get notices", async () => {
    const served = await Served.start({ resumeMs: 50 });
    const port = await served.open();
    const { session, told } = await join(port);
    await addNamed(port, "held");
    const [held] = await claimAll(port, session);
    const next = waiting(served.store);
    served.proxy.cut();
    const [again] = await next;
    expect(again).toMatchObject({ id: held!.id, attempt: 2 });
    served.proxy.mend();
    expect(await told).toEqual({ kind: "gone" });
    await expect(port.settle(held!, ack)).rejects.toMatchObject({ code: "CLAIM_LOST" });
    await expect(claimAll(port, session)).rejects.toMatchObject({ code: "CLAIM_LOST" });
    expect((await served.store.history(held!.id))[0]).toMatchObject({ outcome: "lost" });
  });

  test("a connection that is not resumed loses its manual claims too", async () => {
    const served = await Served.start({ resumeMs: 50 });
    const port = await served.open();
    await addNamed(port, "held");
    const [held] = await claimAll(port);
    const next = waiting(served.store);
    served.proxy.cut();
    expect((await next)[0]).toMatchObject({ id: held!.id, attempt: 2 });
  });

  test("a call that waits is sent again through the new connection", async () => {
    const served = await Served.start({ resumeMs: 0 });
    const port = await served.open();
    const next = waiting(port);
    await port.stats(QUEUE);
    served.proxy.cut();
    await addNamed(served.store, "x");
    served.proxy.mend();
    expect(await next).toMatchObject([{ data: "x" }]);
  });

  test("a reader of events learns that it missed some", async () => {
    const served = await Served.start();
    const port = await served.open();
    const stop = new AbortController();
    const events = eachEvent(port.events(stop.signal));
    await port.declare(QUEUE, {});
    expect((await events.next()).value).toMatchObject({ type: "queue.created" });
    await served.restart();
    expect((await events.next()).value).toMatchObject({ type: "gap" });
    await addNamed(port, "x");
    expect((await events.next()).value).toMatchObject({ type: "task.added" });
    stop.abort();
  });
});

describe("a client that closes", () => {
  test("a closed client's manual claims last until their lease ends, and any client may settle them", async () => {
    const served = await Served.start({ resumeMs: 10 });
    const port = await served.open();
    await addNamed(port, "held");
    const [held] = await claimAll(port);
    await port.close();
    const again = await served.open();
    expect(await again.settle(held!, ack)).toEqual({ state: "done" });
  });

  test("a client closes at once, also while there is no server", async () => {
    const served = await Served.start();
    const port = await served.open();
    const end = port.end("01980000-0000-7000-8000-000000000000").catch((error: unknown) => error);
    const next = waiting(port);
    await served.stop();
    await port.close();
    expect(await next).toEqual([]);
    expect(await end).toMatchObject({ code: expect.stringMatching("CLOSED|TASK_NOT_FOUND") });
  });
});

describe("a server that is restarted", () => {
  test("workers keep their claims when the server is restarted", async () => {
    const served = await Served.start();
    const port = await served.open();
    const { session, notices } = await join(port);
    await addNamed(port, "held", "next");
    const held = (await port.claim({ queues: [QUEUE], max: 1, worker: "w", wait: 0, session })).tasks[0]!;
    await served.restart();
    expect(await port.settle(held, ack)).toEqual({ state: "done" });
    expect(await claimAll(port, session)).toMatchObject([{ data: "next", attempt: 1 }]);
    expect(notices).toEqual([]);
    expect((await port.workers()).items).toMatchObject([{ id: "w", claims: 1 }]);
  });

  test("tasks of a claim that its worker never learnt of are released", async () => {
    const served = await Served.start();
    const port = await served.open();
    const { session } = await join(port);
    const next = port.claim({ queues: [QUEUE], max: 1, worker: "w", wait: 60_000, session });
    await port.stats(QUEUE);
    served.proxy.mute();
    await addNamed(served.store, "x");
    // The task is claimed, but the answer is swallowed.
    expect(await claimAll(served.store)).toEqual([]);
    served.proxy.cut();
    served.proxy.mend();
    await served.restart();
    expect((await next).tasks).toMatchObject([{ data: "x", attempt: 1 }]);
  });

  test("a call during a restart is answered with its outcome where the outcome is certain", async () => {
    const served = await Served.start();
    const port = await served.open();
    await addNamed(port, "1", "2");
    const [first, second] = await claimAll(port);
    // The server gets these calls, but their answers do not come back.
    served.proxy.cutAfter = (sent) => sent.length > 100;
    const lost = [
      port.settle(first!, ack),
      port.settle(second!, { kind: "nack", error: { name: "E", message: "m", stack: null }, delay: 0 }),
      port.add([{ queue: QUEUE, data: "keyed", idempotencyKey: "k" }]),
      port.stats(QUEUE).then(({ queue }) => queue),
      port.add([{ queue: QUEUE, data: "unkeyed" }]).catch((error: unknown) => error),
    ];
    await new Promise((resolve) => setImmediate(resolve));
    await served.store.end(first!.id);
    served.proxy.cutAfter = undefined;
    await served.restart();
    served.proxy.mend();
    const [acked, nacked, [keyed], read, unkeyed] = (await Promise.all(lost)) as [
      { state: string },
      { state: string },
      [{ existing: boolean }],
      string,
      Error,
    ];
    expect(acked).toEqual({ state: "done" });
    expect(nacked).toEqual({ state: "ready" });
    expect(keyed).toMatchObject({ existing: true });
    expect(read).toBe(QUEUE);
    expect(unkeyed).toMatchObject({ code: "OUTCOME_UNKNOWN", retryable: true });
    const names = (await claimAll(served.store)).map(({ data }) => data);
    expect(names.map(String).toSorted()).toEqual(["2", "keyed", "unkeyed"]);
  });

  test("a settlement that was refused before the restart is refused again", async () => {
    const served = await Served.start({ resumeMs: 10_000 });
    const port = await served.open();
    await addNamed(port, "1");
    const [held] = await claimAll(port);
    await served.store.settle(held!, { kind: "release", started: true });
    await served.stop();
    const late = port.settle(held!, ack);
    late.catch(() => {});
    await served.restart();
    await expect(late).rejects.toMatchObject({ code: "CLAIM_LOST" });
  });
});

describe("a connection that swallows everything", () => {
  const quick = { beatMs: 50, resumeMs: 500 };

  test("the client notices a dead connection, and continues through another", async () => {
    const served = await Served.start({ ...quick, resumeMs: 10_000 });
    const port = await served.open();
    const { session, notices } = await join(port);
    await addNamed(port, "held");
    const [held] = await claimAll(port, session);
    served.proxy.mute();
    const settled = port.settle(held!, ack);
    // Only the earlier connections stay silent.
    await new Promise((resolve) => setTimeout(resolve, 20));
    served.proxy.mend();
    expect(await settled).toEqual({ state: "done" });
    expect(notices).toEqual([]);
  });

  test("the server notices a dead connection, and releases the claims of its worker", async () => {
    const served = await Served.start(quick);
    const port = await served.open();
    const { session, told } = await join(port);
    await addNamed(port, "held");
    const [held] = await claimAll(port, session);
    served.proxy.mute();
    const [again] = await waiting(served.store);
    expect(again).toMatchObject({ id: held!.id, attempt: 2 });
    served.proxy.mend();
    expect(await told).toEqual({ kind: "gone" });
  });

  test("an idle connection is not taken for dead", async () => {
    const served = await Served.start(quick);
    const port = await served.open();
    const { session, notices } = await join(port);
    await addNamed(port, "held");
    const [held] = await claimAll(port, session);
    await new Promise((resolve) => setTimeout(resolve, 20 * quick.beatMs));
    expect(await port.settle(held!, ack)).toEqual({ state: "done" });
    expect(notices).toEqual([]);
  });
});

describe("a worker without a connection", () => {
  test("a worker without a connection learns after a lease that its claims are lost", async () => {
    const served = await Served.start({ resumeMs: 10 });
    const port = await served.open();
    const { told } = await join(port, 100);
    served.proxy.cut();
    expect(await told).toEqual({ kind: "gone" });
  });
});
