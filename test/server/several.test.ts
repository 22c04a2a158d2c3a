// Several servers on one PostgreSQL act as one, whichever a client is connected to.

import { describe, expect, onTestFinished, test } from "vitest";
import { openPort } from "../../src/api/open.ts";
import { type Dibs, open } from "../../src/index.ts";
import type { Server } from "../../src/server/server.ts";
import type { ServerOptions } from "../../src/server/options.ts";
import { freshSchema } from "../postgres/shared.ts";
import { Proxy } from "../proxy.ts";
import { latch } from "../stores.ts";
import { startServer } from "./start.ts";

interface Side {
  server: Server;
  dibs: Dibs;
}

/** Two servers, each with its own client. Nothing is found by polling: `poll` is an hour. */
async function setUp(native: ServerOptions["native"] = {}): Promise<[Side, Side]> {
  const { url, schema } = await freshSchema((undo) => onTestFinished(undo));
  const startSide = async (): Promise<Side> => {
    const store = await openPort(url, { schema, poll: "1h" });
    const server = await startServer(store, { native });
    const dibs = await open(server.url);
    onTestFinished(async () => {
      await dibs.close();
      await server.close();
      await store.close();
    });
    return { server, dibs };
  };
  return [await startSide(), await startSide()];
}

describe("two servers on one PostgreSQL", () => {
  test("a task added at one server wakes a worker of the other, and its result comes back", async () => {
    const [a, b] = await setUp();
    const worker = b.dibs.queue<number, number>("work").work(({ data }) => data * 2);
    await worker.ready;
    const task = await a.dibs.queue<number, number>("work").add(21);
    expect(await task.result({ timeout: "20s" })).toBe(42);
    expect(await b.dibs.task(task.id).result()).toBe(42);
  });

  test("an add at one server serves a claim that waits at the other, and each task is claimed once", async () => {
    const [a, b] = await setUp();
    const waiting = b.dibs.queue("work").claim({ wait: "30s" });
    await a.dibs.queue("work").add("x");
    const [claim] = await waiting;
    expect(claim).toMatchObject({ data: "x", fence: expect.any(Number) });
    expect(await a.dibs.queue("work").claim()).toEqual([]);
    await claim!.ack();
    expect((await a.dibs.queue("work").stats()).depth).toMatchObject({ done: 1, claimed: 0 });
  });

  test("events of one server arrive at the other", async () => {
    const [a, b] = await setUp();
    const stop = new AbortController();
    const events = a.dibs.events({ signal: stop.signal });
    const heard: string[] = [];
    const following = (async () => {
      for await (const event of events) {
        if (event.type.startsWith("task.")) heard.push(event.type);
        if (event.type === "task.done") return;
      }
    })();
    // Answered by the server that listens: from here on it does.
    await a.dibs.queues();
    const queue = b.dibs.queue("work");
    await queue.add(1);
    const [claim] = await queue.claim();
    await claim!.ack();
    await following;
    stop.abort();
    expect(heard).toEqual(["task.added", "task.claimed", "task.done"]);
  });

  test("a cancel at one server reaches the handler at the other", async () => {
    const [a, b] = await setUp();
    const [began, aborted] = [latch(), latch()];
    const worker = b.dibs.queue("work").work(async (task) => {
      task.signal.addEventListener("abort", () => aborted.open());
      began.open();
      await aborted.promise;
    });
    await worker.ready;
    const task = await a.dibs.queue("work").add(1);
    await began.promise;
    await a.dibs.task(task.id).cancel();
    await aborted.promise;
    await expect(task.result({ timeout: "20s" })).rejects.toMatchObject({ code: "TASK_CANCELLED" });
  });

  test("a message published at one server reaches the groups of the other", async () => {
    const [a, b] = await setUp();
    const heard = latch<unknown>();
    const subscription = b.dibs.subscribe("order.*", "audit", (task) => heard.open(task.data));
    await subscription.ready;
    await a.dibs.topic("order.placed").publish({ id: 7 });
    expect(await heard.promise).toEqual({ id: 7 });
  });

  test("a worker that loses its connection to one server continues at the other with its claims", async () => {
    const [a, b] = await setUp({ resumeMs: 2_000 });
    const portOf = ({ server }: Side): number => Number(new URL(server.url).port);
    const proxy = await Proxy.start(portOf(a));
    onTestFinished(() => proxy.close());
    const dibs = await open(`http://127.0.0.1:${proxy.port}`);
    onTestFinished(() => dibs.close());
    const [began, goOn] = [latch(), latch()];
    const runs: string[] = [];
    const worker = dibs.queue<number, string>("work", { elsewhere: 0 }).work(async (task) => {
      runs.push(task.id);
      began.open();
      await goOn.promise;
      return task.signal.aborted ? "lost" : "kept";
    });
    await worker.ready;
    const task = await b.dibs.queue<number, string>("work").add(1);
    await began.promise;
    proxy.target = portOf(b);
    proxy.cut();
    proxy.mend();
    await expect.poll(() => b.server.clients, { timeout: 20_000 }).toBe(2);
    // The first server gives the session up, which has no effect any more.
    await expect.poll(() => a.server.clients, { timeout: 20_000 }).toBe(1);
    goOn.open();
    expect(await task.result({ timeout: "20s" })).toBe("kept");
    expect(await b.dibs.task(task.id).history()).toMatchObject([{ attempt: 1, outcome: "done" }]);
    expect(runs).toHaveLength(1);
  });

  test("a stopped server hands its work to the other, without counting an attempt", async () => {
    const [a, b] = await setUp();
    const queue = a.dibs.queue("work");
    const [claim] = await Promise.all([queue.claim({ wait: "30s", lease: "10m" }), queue.add(1)]);
    const waiting = b.dibs.queue("work").claim({ wait: "30s" });
    await a.server.drain(0);
    expect(await waiting).toMatchObject([{ id: claim[0]!.id, attempt: 1 }]);
  });
});
