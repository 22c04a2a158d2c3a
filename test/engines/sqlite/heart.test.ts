import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { ask, call, newTask, nextHint, openEngine, openStore, QUEUE, tempPath, worker } from "./kit.ts";

/** Heartbeats are sent every second. On a busy machine the thread may run two seconds late. */
const LEASE_MS = 3_000;

function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

describe("a session", () => {
  test("a session lives while the event loop is blocked for longer than its lease", async () => {
    const path = tempPath();
    const engine = await openEngine({ path });
    const other = openStore(path);
    const { session } = await call(engine, { verb: "join", worker: worker("busy"), lease: LEASE_MS });
    await call(engine, { verb: "declare", queue: QUEUE, policy: { lease: LEASE_MS } });
    await call(engine, { verb: "add", tasks: [newTask()] });
    await call(engine, { verb: "claim", queues: [QUEUE], max: 1, worker: "busy", session });
    block(LEASE_MS * 1.2);
    expect(ask(other, { verb: "claim", queues: [QUEUE], max: 1, worker: "other" }).tasks).toEqual([]);
    expect(ask(other, { verb: "workers", limit: 1_000 }).items).toMatchObject([{ id: "busy", claims: 1 }]);
  });

  test("a session lives while the store's thread is always busy", async () => {
    const path = tempPath();
    const engine = await openEngine({ path });
    const other = openStore(path);
    await call(engine, { verb: "join", worker: worker("busy"), lease: LEASE_MS });
    const tasks = Array.from({ length: 2_000 }, () => newTask());
    const over = new AbortController();
    // Whenever a commit ends, other commits are waiting.
    const flood = Array.from({ length: 4 }, async () => {
      while (!over.signal.aborted) await call(engine, { verb: "add", tasks });
    });
    try {
      for (let beats = 0, silentFor = 0; beats < 2;) {
        await call(engine, { verb: "add", tasks });
        ask(other, { verb: "housekeep" });
        const [found] = ask(other, { verb: "workers", limit: 1_000 }).items;
        expect(found).toMatchObject({ id: "busy" });
        if (found!.silentFor < silentFor) beats++;
        ({ silentFor } = found!);
      }
    } finally {
      over.abort();
      await Promise.all(flood);
    }
  });

  test("a session ends when its process is gone, and only then", async () => {
    const path = tempPath();
    const engine = await openEngine({ path });
    // Opened before the lease begins: on a busy machine that takes longer than it lasts.
    const other = openStore(path);
    await call(engine, { verb: "join", worker: worker("gone"), lease: 1_000 });
    expect(ask(other, { verb: "workers", limit: 1_000 }).items).toHaveLength(1);
    await engine.close();
    block(1_010);
    ask(other, { verb: "housekeep" });
    expect(ask(other, { verb: "workers", limit: 1_000 }).items).toEqual([]);
  });

  test("a session that another process ended is reported once", async () => {
    const path = tempPath();
    const engine = await openEngine({ path });
    const { session } = await call(engine, { verb: "join", worker: worker("w"), lease: 300 });
    const told = nextHint(engine, (hint) => hint.notices !== undefined);
    ask(openStore(path), { verb: "leave", session });
    expect((await told).notices).toEqual([{ session, kind: "gone" }]);
  });

  test("heartbeats follow the injected clock", async () => {
    const clock = new ManualClock();
    const engine = await openEngine({ clock });
    await call(engine, { verb: "join", worker: worker("w"), lease: 30_000 });
    for (let i = 0; i < 10; i++) await clock.advance(10_000);
    expect((await call(engine, { verb: "workers", limit: 1_000 })).items).toMatchObject([
      { id: "w", silentFor: 0 },
    ]);
  });
});
