// What a worker reports about its tasks: hooks of the user's, and lines in the log.

import { describe, expect, it, test, vi, onTestFinished } from "vitest";
import { open, Reject, Retry, type WorkerHooks } from "../../src/index.ts";
import { ManualClock } from "../../src/testing/index.ts";
import { latch, openStore, STORES } from "../stores.ts";

const QUICK = { backoff: { type: "fixed", delay: 0, jitter: 0 } } as const;

function recordingLogger() {
  const lines: string[] = [];
  const log = (message: string): unknown => lines.push(message);
  return { lines, logger: { warn: log, error: log } };
}

/** Hooks that record their calls, and a promise of the nth call. */
function recordingHooks(expected: number) {
  const calls: unknown[][] = [];
  const all = latch();
  const record =
    (name: string) =>
    ({ data, attempt }: { data: unknown; attempt: number }, given?: unknown): void => {
      calls.push([name, data, attempt, given]);
      if (calls.length === expected) all.open();
    };
  const on: WorkerHooks = {
    claimed: record("claimed"),
    done: record("done"),
    failed: record("failed"),
    dead: record("dead"),
  };
  return { on, calls, all: all.promise };
}

describe.each(STORES)("a worker on %s", (store) => {
  it("hooks get each claim, and how it ended, with what the handler returned or threw", async () => {
    const { logger } = recordingLogger();
    const dibs = await openStore(store, { logger });
    const queue = dibs.queue<string>("work", { ...QUICK, maxAttempts: 2 });
    const error = new Error("broken");
    const { on, calls, all } = recordingHooks(6);
    await queue.addMany([{ data: "good" }, { data: "bad" }]);
    queue.work(
      ({ data }) => {
        if (data === "good") return { sent: true };
        throw error;
      },
      { on },
    );
    await all;
    expect(calls).toEqual([
      ["claimed", "good", 1, undefined],
      ["done", "good", 1, { sent: true }],
      ["claimed", "bad", 1, undefined],
      ["failed", "bad", 1, error],
      ["claimed", "bad", 2, undefined],
      ["dead", "bad", 2, error],
    ]);
  });

  it("a rejected task is dead at once; a released, held or cancelled one calls no hook", async () => {
    const dibs = await openStore(store, { logger: recordingLogger().logger });
    const queue = dibs.queue<string>("work");
    const { on, calls } = recordingHooks(0);
    const seen = new Set<string>();
    const worker = queue.work(
      async (task) => {
        const isFirst = !seen.has(task.data);
        seen.add(task.data);
        if (task.data === "reject") throw new Reject("malformed");
        if (!isFirst) return;
        if (task.data === "release") await task.release();
        if (task.data === "cancel") {
          await dibs.task(task.id).cancel();
          throw new Error("stopped");
        }
      },
      { on },
    );
    const [rejected, released, cancelled] = await queue.addMany([
      { data: "reject" },
      { data: "release" },
      { data: "cancel" },
    ]);
    await expect(rejected!.result()).rejects.toMatchObject({ code: "TASK_DEAD" });
    await released!.result();
    await expect(cancelled!.result()).rejects.toMatchObject({ code: "TASK_CANCELLED" });
    await worker.stop();
    const ends = calls.filter(([name]) => name !== "claimed").map(([name, data]) => [name, data]);
    expect(ends).toEqual([
      ["dead", "reject"],
      ["done", "release"],
    ]);
  });

  it("a hook that throws or rejects is logged, and changes nothing", async () => {
    const { lines, logger } = recordingLogger();
    const dibs = await openStore(store, { logger });
    const queue = dibs.queue<number>("work");
    const worker = queue.work(({ data }) => data * 2, {
      on: {
        claimed: () => {
          throw new Error("no claimed");
        },
        done: async () => Promise.reject(new Error("no done")),
      },
    });
    expect(await (await queue.add(21)).result()).toBe(42);
    await worker.stop();
    expect((await queue.stats()).depth.done).toBe(1);
    expect(lines).toEqual(["The hook on.claimed failed: no claimed", "The hook on.done failed: no done"]);
  });

  it("hooks of a batch are called for each of its tasks", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number>("work");
    const { on, calls, all } = recordingHooks(4);
    await queue.addMany([{ data: 1 }, { data: 2 }]);
    queue.workBatch((tasks) => tasks.map(({ data }) => data * 10), { on });
    await all;
    expect(calls.filter(([name]) => name === "done").map(([, data, , result]) => [data, result])).toEqual([
      [1, 10],
      [2, 20],
    ]);
  });

  it("the log has a line for each task that dies, and for attempts that fail again", async () => {
    const { lines, logger } = recordingLogger();
    const dibs = await openStore(store, { logger });
    const queue = dibs.queue("emails", { ...QUICK, maxAttempts: 3 });
    queue.work(() => {
      throw new TypeError("no such\u001b[31m address\nat line 5");
    });
    const task = await queue.add(1);
    await expect(task.result()).rejects.toMatchObject({ code: "TASK_DEAD" });
    await expect
      .poll(() => lines)
      .toEqual([
        `Task ${task.id} of queue "emails" failed on attempt 2 of 3 and will be tried again: TypeError: no such\\u001b[31m address`,
        `Task ${task.id} of queue "emails" failed on attempt 3 of 3 and is now a dead letter: TypeError: no such\\u001b[31m address`,
      ]);
  });

  it("the log has a line for a task whose last result a verifier refuses", async () => {
    const { lines, logger } = recordingLogger();
    const dibs = await openStore(store, { logger });
    const queue = dibs.queue("drafts", { ...QUICK, maxAttempts: 1 });
    queue.verify(() => ({ refuse: "too short" }));
    queue.work(() => "text");
    const task = await queue.add(1);
    await expect(task.result()).rejects.toMatchObject({ code: "TASK_DEAD" });
    await expect
      .poll(() => lines)
      .toEqual([
        `Task ${task.id} of queue "drafts" failed on attempt 1 of 1 and is now a dead letter: Refused: too short`,
      ]);
  });
});

test("a task that times out on its last attempt calls on.dead, and is logged", async () => {
  const { lines, logger } = recordingLogger();
  const clock = new ManualClock();
  const dibs = await openStore("memory", { clock, logger });
  const queue = dibs.queue("slow", { timeout: "1m", maxAttempts: 1 });
  const { on, calls, all } = recordingHooks(2);
  const started = latch();
  queue.work(
    () => {
      started.open();
      return new Promise(() => {});
    },
    { on },
  );
  const task = await queue.add(1);
  await started.promise;
  await clock.advance("2m");
  await all;
  expect(calls[1]).toMatchObject(["dead", 1, 1, { message: expect.stringContaining("timeout") }]);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain(`Task ${task.id} of queue "slow" failed on attempt 1 of 1`);
});

test("of many failures, a queue logs a few lines in ten seconds, and then how many more there were", async () => {
  const { lines, logger } = recordingLogger();
  const clock = new ManualClock();
  const dibs = await openStore("memory", { clock, logger });
  const queue = dibs.queue("q", { maxAttempts: 1 });
  queue.work(() => {
    throw new Error("broken");
  });
  const tasks = await queue.addMany(Array.from({ length: 50 }, (_, n) => ({ data: n })));
  await Promise.allSettled(tasks.map((task) => task.result()));
  expect(lines).toHaveLength(20);
  await clock.advance("10s");
  expect(lines.slice(20)).toEqual([`30 more tasks of queue "q" became dead letters within 10 s.`]);
});

test("closing a store logs the failures that were only counted", async () => {
  const { lines, logger } = recordingLogger();
  const dibs = await open(":memory:", { logger });
  const queue = dibs.queue<number>("q", QUICK);
  queue.work(({ attempt }) => {
    if (attempt < 4) throw new Retry("busy", { delay: 0 });
  });
  await (await queue.add(1)).result();
  await dibs.close();
  expect(lines).toEqual([
    expect.stringContaining("failed on attempt 2 of 5 and will be tried again"),
    `1 more attempt in queue "q" failed within 10 s.`,
  ]);
});

test("a worker without a logger writes failures to standard error", async () => {
  const error = vi.spyOn(console, "error").mockImplementation(() => {});
  onTestFinished(() => error.mockRestore());
  const dibs = await openStore("memory");
  const queue = dibs.queue("q", { maxAttempts: 1 });
  queue.work(() => {
    throw new Error("broken");
  });
  const task = await queue.add(1);
  await expect(task.result()).rejects.toMatchObject({ code: "TASK_DEAD" });
  await expect
    .poll(() => error.mock.calls)
    .toEqual([
      [`dibs: Task ${task.id} of queue "q" failed on attempt 1 of 1 and is now a dead letter: Error: broken`],
    ]);
});

test("a logger that throws harms no settlement", async () => {
  const fail = (): never => {
    throw new Error("disk full");
  };
  const dibs = await openStore("memory", { logger: { warn: fail, error: fail } });
  const queue = dibs.queue("q", { maxAttempts: 1 });
  queue.work(() => fail());
  const [first, second] = await queue.addMany([{ data: 1 }, { data: 2 }]);
  for (const task of [first!, second!])
    await expect(task.result()).rejects.toMatchObject({ code: "TASK_DEAD" });
});

test("hooks are functions with known names", async () => {
  const dibs = await openStore("memory");
  const queue = dibs.queue("q");
  expect(() => queue.work(() => 1, { on: { died: () => {} } as never })).toThrow(
    'Unknown on option "died". Known: claimed, done, failed, dead.',
  );
  expect(() => queue.work(() => 1, { on: { dead: "page" as never } })).toThrow(
    'on.dead must be a function; got "page".',
  );
});
