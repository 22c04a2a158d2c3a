import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Worker } from "node:worker_threads";
import type * as threadsModule from "node:worker_threads";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { Op } from "../../../src/engine/engine.ts";
import { call, codeOf, newTask, nextHint, openEngine, QUEUE, tempPath, worker } from "./kit.ts";

const threads: Worker[] = [];

vi.mock("node:worker_threads", async (importOriginal) => {
  const original = await importOriginal<typeof threadsModule>();
  class Watched extends original.Worker {
    constructor(...args: ConstructorParameters<typeof Worker>) {
      super(...args);
      threads.push(this);
    }
  }
  return { ...original, Worker: Watched };
});

beforeEach(() => void threads.splice(0));

describe("an engine", () => {
  test("an engine answers each of several coalesced calls", async () => {
    const engine = await openEngine();
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) =>
        call(engine, { verb: "add", tasks: [newTask({ data: `${i}` })] }),
      ),
    );
    const ids = answers.map(([added]) => added!.id);
    expect(new Set(ids).size).toBe(100);
    expect(ids.toSorted()).toEqual(ids);
  });

  test("an engine refuses one call of a batch and executes the others", async () => {
    const engine = await openEngine();
    await call(engine, { verb: "declare", queue: "small", policy: { maxDepth: 1 } });
    const adds = ["small", "small", QUEUE].map((queue) =>
      codeOf(() => call(engine, { verb: "add", tasks: [newTask({ queue })] })),
    );
    expect(await Promise.all(adds)).toEqual([undefined, "QUEUE_FULL", undefined]);
  });

  test("an exception in one call does not fail the calls that share its batch", async () => {
    const engine = await openEngine();
    const bad = engine.execute([{ verb: "add", tasks: null } as never]);
    const good = call(engine, { verb: "add", tasks: [newTask()] });
    await expect(bad).rejects.toThrow(TypeError.prototype.message);
    expect(await good).toHaveLength(1);
  });

  test("a read sees earlier writes, answered or not", async () => {
    const engine = await openEngine();
    const stats: Op<"stats"> = { verb: "stats", queue: QUEUE };
    const adding = call(engine, { verb: "add", tasks: [newTask()] });
    expect((await call(engine, stats)).depth.ready).toBe(1);
    await adding;
    await call(engine, { verb: "add", tasks: [newTask()] });
    expect((await call(engine, stats)).depth.ready).toBe(2);
  });

  test("slow reads use a thread that is started when it is needed", async () => {
    const engine = await openEngine();
    await call(engine, { verb: "ends", ids: [] });
    expect(threads).toHaveLength(1);
    await Promise.all([
      call(engine, { verb: "queues", limit: 1_000 }),
      call(engine, { verb: "workers", limit: 1_000 }),
    ]);
    expect(threads).toHaveLength(2);
  });

  test("the thread of slow reads ends when it was not used for a minute", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const engine = await openEngine();
    await call(engine, { verb: "workers", limit: 1_000 });
    vi.advanceTimersByTime(59_000);
    await call(engine, { verb: "workers", limit: 1_000 });
    const ended = once(threads[1]!, "exit");
    vi.advanceTimersByTime(60_000);
    await ended;
    expect((await call(engine, { verb: "workers", limit: 1_000 })).items).toEqual([]);
    expect(threads).toHaveLength(3);
  });

  test("the figures of few queues are read without another thread, those of many with one", async () => {
    const engine = await openEngine();
    const declare = (count: number): Promise<unknown> =>
      engine.execute(
        Array.from(
          { length: count },
          (_, i) => ({ verb: "declare", queue: `q${i}`, policy: {}, create: true }) as const,
        ),
      );
    const figures = { verb: "queues", stats: true, limit: 1_000 } as const;
    await declare(20);
    expect((await engine.execute([figures, { verb: "housekeep" }]))[0]).toHaveProperty("ok.items.length", 20);
    await call(engine, figures);
    expect(threads).toHaveLength(1);
    await declare(21);
    expect((await call(engine, figures)).items).toHaveLength(21);
    await call(engine, figures);
    expect(threads).toHaveLength(2);
  });

  test("bytes are returned as bytes", async () => {
    const engine = await openEngine();
    const data = Uint8Array.of(0, 255, 10);
    await call(engine, { verb: "add", tasks: [newTask({ data })] });
    const { tasks } = await call(engine, { verb: "claim", queues: [QUEUE], max: 1, worker: "w" });
    expect(tasks[0]!.data).toEqual(data);
  });

  test("an engine hints at ready tasks before the call resolves", async () => {
    const engine = await openEngine();
    const order: string[] = [];
    engine.onHint((hint) => order.push(JSON.stringify(hint)));
    await call(engine, { verb: "add", tasks: [newTask(), newTask()] });
    order.push("answered");
    expect(order).toEqual([`{"ready":{"${QUEUE}":2}}`, "answered"]);
  });

  test("an engine does not hint at tasks that the same batch claimed", async () => {
    const engine = await openEngine();
    const hints: string[] = [];
    engine.onHint((hint) => hints.push(JSON.stringify(hint)));
    const add: Op = { verb: "add", tasks: [newTask(), newTask()] };
    const claim = (max: number): Op => ({ verb: "claim", queues: [QUEUE], max, worker: "w" });
    await engine.execute([add, claim(5)]);
    expect(hints).toEqual([]);
    await engine.execute([add, claim(1), claim(0)]);
    expect(hints).toEqual([`{"ready":{"${QUEUE}":1}}`]);
  });

  test("a worker gets the notice of a cancel at once", async () => {
    const engine = await openEngine();
    const { session } = await call(engine, { verb: "join", worker: worker("w"), lease: 30_000 });
    const [added] = await call(engine, { verb: "add", tasks: [newTask()] });
    const { tasks } = await call(engine, { verb: "claim", queues: [QUEUE], max: 1, worker: "w", session });
    const told = nextHint(engine, (hint) => hint.notices !== undefined);
    await call(engine, { verb: "cancel", id: added!.id });
    const { id, fence } = tasks[0]!;
    expect((await told).notices).toEqual([{ session, kind: "cancel", id, fence }]);
  });

  test("an engine does not keep an idle process alive", async () => {
    const program = fileURLToPath(new URL("programs/idle.ts", import.meta.url));
    const child = spawn(process.execPath, [program, tempPath()], { stdio: "inherit" });
    expect(await once(child, "exit")).toEqual([0, null]);
  });
});

describe("when its thread dies, an engine", () => {
  test("calls in progress get OUTCOME_UNKNOWN, and later calls are refused", async () => {
    const engine = await openEngine();
    const adding = Promise.all(
      [1, 2, 3].map(() => codeOf(() => call(engine, { verb: "add", tasks: [newTask()] }))),
    );
    await threads[0]!.terminate();
    expect(await adding).toEqual(Array(3).fill("OUTCOME_UNKNOWN"));
    expect(await codeOf(() => engine.execute([{ verb: "housekeep" }]))).toBe("UNAVAILABLE");
    expect(await codeOf(() => engine.execute([{ verb: "queues", limit: 1_000 }]))).toBe("UNAVAILABLE");
    await engine.close();
  });

  test("the reading thread is started again after it has died", async () => {
    const engine = await openEngine();
    await call(engine, { verb: "workers", limit: 1_000 });
    await threads[1]!.terminate();
    expect((await call(engine, { verb: "workers", limit: 1_000 })).items).toEqual([]);
    expect(threads).toHaveLength(3);
  });
});
