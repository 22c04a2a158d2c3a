import { appendFileSync, writeFileSync } from "node:fs";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { Watch } from "../../../src/engines/sqlite/connection/watch.ts";
import { ask, call, newTask, nextHint, now, openEngine, openStore, QUEUE, tempPath, worker } from "./kit.ts";

/** A second connection is used instead of another process: to SQLite they are the same. */
describe("commits of another process", () => {
  test("each commit of another process wakes this one", async () => {
    const path = tempPath();
    const engine = await openEngine({ path });
    const other = openStore(path);
    for (let i = 0; i < 10; i++) {
      const woken = nextHint(engine, (hint) => hint.foreign === true);
      ask(other, { verb: "add", tasks: [newTask()] });
      await woken;
      await call(engine, { verb: "claim", queues: [QUEUE], max: 1, worker: "w" });
    }
  });

  test("a commit of another process is noticed by its write, without polling", async () => {
    const path = tempPath();
    writeFileSync(`${path}-wal`, "");
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    let reads = 0;
    let version = 1;
    const reported = new Promise<void>((resolve) => {
      const watch = new Watch(path, () => (reads++, version), resolve);
      onTestFinished(() => watch.close());
    });
    vi.advanceTimersByTime(3_600_000);
    expect(reads).toBe(1);
    version = 2;
    appendFileSync(`${path}-wal`, "written");
    // The timers are still stopped: only the file system can report this.
    await reported;
    expect(reads).toBe(2);
  });

  test("a task added by another process is claimed at once by the longest-waiting claim", async () => {
    const path = tempPath();
    const engine = await openEngine({ path });
    const other = openStore(path);
    const stand = async (name: string, stands: number) => {
      const { session } = await call(engine, { verb: "join", worker: worker(name), lease: 60_000 });
      await call(engine, {
        verb: "claim",
        queues: [QUEUE],
        max: 1,
        worker: name,
        session,
        waitingId: stands,
      });
      return session;
    };
    const first = await stand("first", 1);
    await stand("second", 2);
    const retried = async (leave?: number) => {
      if (leave !== undefined) await call(engine, { verb: "leave", session: leave });
      const told = nextHint(engine, (hint) => hint.foreign === true);
      ask(other, { verb: "add", tasks: [newTask()] });
      return (await told).retriedClaim;
    };
    expect(await retried()).toMatchObject({
      request: { worker: "first", waitingId: 1 },
      outcome: { tasks: [{ queue: QUEUE, attempt: 1 }] },
    });
    await stand("first again", 3);
    expect(await retried()).toMatchObject({ request: { waitingId: 2 }, outcome: { tasks: [{}] } });
    const last = await stand("last", 4);
    expect(await retried(first)).toMatchObject({ request: { waitingId: 3 }, outcome: { tasks: [{}] } });
    // No claim waits any more.
    expect(await retried(last)).toBeUndefined();
    expect((await call(engine, { verb: "stats", queue: QUEUE })).depth).toMatchObject({
      ready: 2,
      claimed: 2,
    });
  });

  test("commits of another process and of this one are told apart", async () => {
    const engine = await openEngine();
    const hints: unknown[] = [];
    engine.onHint((hint) => hints.push(hint));
    for (let i = 0; i < 20; i++) await call(engine, { verb: "add", tasks: [newTask()] });
    expect(hints.filter((hint) => (hint as { foreign?: boolean }).foreign)).toEqual([]);
  });

  test("a cancel by another process reaches the worker at once", async () => {
    const path = tempPath();
    const engine = await openEngine({ path });
    const { session } = await call(engine, { verb: "join", worker: worker("w"), lease: 60_000 });
    await call(engine, { verb: "add", tasks: [newTask()] });
    const { tasks } = await call(engine, { verb: "claim", queues: [QUEUE], max: 1, worker: "w", session });
    const { id, fence } = tasks[0]!;
    const told = nextHint(engine, (hint) => hint.notices !== undefined);
    ask(openStore(path), { verb: "cancel", id });
    expect((await told).notices).toEqual([{ session, kind: "cancel", id, fence }]);
  });
});

describe("a batch that changes nothing", () => {
  test("a batch that changes nothing writes nothing, so that idle processes do not wake each other", () => {
    const path = tempPath();
    const store = openStore(path);
    const other = openStore(path);
    const { session } = ask(store, { verb: "join", worker: worker("w"), lease: 60_000 });
    ask(store, { verb: "add", tasks: [newTask({ delay: 60_000 })] });
    ask(store, { verb: "listen", listener: "l", after: null, limit: 1 });
    const version = other.dataVersion();
    for (let i = 0; i < 3; i++) {
      ask(store, { verb: "claim", queues: [QUEUE, "nowhere"], max: 5, worker: "w", session });
      ask(store, { verb: "housekeep" });
      ask(store, { verb: "prune", limit: 100 });
      ask(store, { verb: "listen", listener: "l", after: null, limit: 1 });
      ask(store, { verb: "declare", queue: QUEUE, policy: {} });
      ask(store, { verb: "stats", queue: QUEUE });
      store.execute(
        [{ verb: "settle", id: "none", fence: 1, settlement: { kind: "release", started: true } }],
        now(),
      );
    }
    expect(other.dataVersion()).toBe(version);
  });
});
