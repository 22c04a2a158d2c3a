// Every public function refuses arguments and options that it does not know.

import { describe, expect, onTestFinished, test } from "vitest";
import { DeadLetters } from "../../src/api/dead-letters.ts";
import { Dibs } from "../../src/api/dibs.ts";
import { Pipeline } from "../../src/api/pipeline.ts";
import { PipelineWorker } from "../../src/api/pipeline-worker.ts";
import { Queue } from "../../src/api/queue.ts";
import { RunHandle } from "../../src/api/run-handle.ts";
import { Schedule } from "../../src/api/schedule.ts";
import { TaskHandle } from "../../src/api/task-handle.ts";
import { Topic } from "../../src/api/topic.ts";
import * as library from "../../src/index.ts";
import { ManualClock } from "../../src/testing/index.ts";
import { Claim } from "../../src/worker/claim.ts";
import { Task } from "../../src/worker/task.ts";
import { Worker } from "../../src/worker/worker.ts";
import { latch } from "../stores.ts";

const handler = (): void => {};

/** Valid arguments, and which of them are the options: `[arguments, index of the options]`. */
type Call = [given: unknown[], options?: number];

/** Every public method, by class. New methods must be added here. */
const METHODS: Record<string, Record<string, Call>> = {
  Dibs: {
    queue: [["q", {}], 1],
    topic: [["t", {}], 1],
    subscribe: [["t", "g", handler, {}], 3],
    subscription: [["t", "g", {}], 2],
    unsubscribe: [["t", "g"]],
    subscriptions: [[{}], 0],
    pipeline: [["p"]],
    run: [["id"]],
    schedule: [["s", { every: "1h" }, { queue: "q" }], 2],
    schedules: [[]],
    pool: [[{ queues: ["q"], command: ["true"] }], 0],
    pools: [[]],
    poolDecisions: [["p", {}], 1],
    alerts: [[{ rules: [{ queue: "q", when: "noWorkers" }] }], 0],
    task: [["id"]],
    work: [[["q"], handler, {}], 2],
    queues: [[]],
    workers: [[{}], 0],
    events: [[{}], 0],
    metrics: [[]],
    close: [[]],
  },
  Queue: {
    add: [[1, {}], 1],
    addMany: [[[{ data: 1 }], {}], 1],
    work: [[handler, {}], 1],
    workBatch: [[handler, {}], 1],
    verify: [[() => true, {}], 1],
    claim: [[{}], 0],
    stats: [[]],
    configure: [[{}], 0],
    pause: [[]],
    resume: [[]],
    unhold: [["g"]],
    purge: [[]],
    delete: [[]],
    changeAll: [["cancel", {}], 1],
    tasks: [[{ state: "ready" }], 0],
  },
  Topic: {
    publish: [[1, {}], 1],
    subscribe: [["g", handler, {}], 2],
    subscription: [["g", {}], 1],
    unsubscribe: [["g"]],
  },
  Pipeline: {
    stage: [["one", handler, {}], 2],
    join: [["two", handler, {}], 2],
    queue: [["first"]],
    add: [[1, {}], 1],
    addMany: [[[{ data: 1 }], {}], 1],
    runs: [[{}], 0],
    run: [["id"]],
    work: [[{}], 0],
  },
  PipelineWorker: { stop: [[{}], 0] },
  RunHandle: { result: [[{}], 0], status: [[]], signal: [["go", 1]], cancel: [[]] },
  Schedule: { info: [[]], pause: [[]], resume: [[]], fire: [[]], delete: [[]] },
  DeadLetters: {
    list: [[{}], 0],
    patterns: [[{}], 0],
    redrive: [[{}], 0],
    discard: [[{ all: true }], 0],
  },
  TaskHandle: {
    result: [[{}], 0],
    info: [[]],
    children: [[{}], 0],
    history: [[]],
    signal: [["name", 1]],
    cancel: [[]],
    update: [[{ priority: 1 }], 0],
    promote: [[]],
    runAgain: [[{}], 0],
  },
  Claim: {
    spend: [[1]],
    ack: [[1, {}], 1],
    nack: [["no", {}], 1],
    hold: [["no", {}], 1],
    reject: [["no"]],
    release: [[{}], 0],
    extend: [["1m"]],
    progress: [[0.5, "note"]],
    log: [["line"]],
    add: [["the queue", 1, {}], 2],
    publish: [["the topic", 1, {}], 2],
  },
  Task: {
    step: [["name", handler]],
    waitFor: [["name", {}], 1],
    sleep: [["1s"]],
    extend: [["1m"]],
    spawn: [["the queue", 1, {}], 2],
    waitForChildren: [[[], {}], 1],
    waitForChildOutcomes: [[[], {}], 1],
  },
  Worker: { stop: [[{}], 0] },
  ManualClock: { advance: [[1]], sleep: [[1]], step: [[1]] },
};

const FUNCTIONS: Record<string, Call> = {
  open: [[":memory:", {}], 1],
  defineQueue: [["q", {}], 1],
  defineTopic: [["t", {}], 1],
  each: [[[1], {}], 1],
  Retry: [["again", {}], 1],
  Reject: [["no", {}], 1],
};

/** The library creates the errors. */
const ERRORS = new Set(["DibsError", "ClaimLostError", "ChildFailedError"]);

const CLASSES = {
  ...{ Dibs, Queue, Topic, Pipeline, PipelineWorker, RunHandle, Schedule, DeadLetters, TaskHandle },
  ...{ Claim, Task, Worker, ManualClock },
};

/** Marked @internal in the sources, or called only by the library. */
const INTERNAL = new Set(
  "constructor startWorker startPool warnOnce observeAckInTransaction isGone settleAs ackAs abort childHandle declare declareIfNeeded prepare prepareMessage read after standStill".split(
    " ",
  ),
);

/** An instance of each class, on a store in memory. */
async function makeAll(): Promise<Record<string, object>> {
  const dibs = await library.open(":memory:");
  onTestFinished(() => dibs.close());
  const queue = dibs.queue("work");
  const taken = latch<Task>();
  const over = latch();
  const worker = queue.work(async (task) => {
    taken.open(task);
    await over.promise;
  });
  await queue.add(1);
  const task = await taken.promise;
  await worker.stop({ timeout: 0 });
  over.open();
  const [claim] = await queue.claim();
  const pipeline = dibs.pipeline("report").stage("first", handler);
  const pipelineWorker = dibs.pipeline("other").stage("first", handler).work();
  return {
    ...{
      Dibs: dibs,
      Queue: queue,
      Topic: dibs.topic("a.b"),
      Pipeline: pipeline,
      PipelineWorker: pipelineWorker,
    },
    ...{ RunHandle: dibs.run(claim!.id), Schedule: dibs.schedule("nightly"), DeadLetters: queue.dead },
    ...{ TaskHandle: dibs.task(claim!.id), Claim: claim!, Task: task, Worker: worker },
    ManualClock: new ManualClock(),
  };
}

/** The error of a call, whether it throws or rejects. */
async function failureOf(call: () => unknown): Promise<unknown> {
  try {
    await call();
    return undefined;
  } catch (error) {
    return error;
  }
}

const ALL = Object.entries(METHODS).flatMap(([of, methods]) =>
  Object.entries(methods).map(([name, call]) => ({ of, name, call })),
);

describe("the table of public methods", () => {
  test.each(Object.entries(CLASSES))("the table contains all public methods of %s", (of, held) => {
    const own = Object.entries(Object.getOwnPropertyDescriptors(held.prototype))
      .filter(([name, { value }]) => typeof value === "function" && !INTERNAL.has(name))
      .map(([name]) => name);
    expect(Object.keys(METHODS[of]!).sort()).toEqual(own.sort());
  });

  test("the table contains all functions of the package", () => {
    const functions = Object.entries(library)
      .filter(([name, value]) => typeof value === "function" && !ERRORS.has(name))
      .map(([name]) => name);
    expect(Object.keys(FUNCTIONS).sort()).toEqual(functions.sort());
  });
});

test.each(ALL)("$name of $of refuses a surplus argument", async ({ of, name, call: [given] }) => {
  const held = (await makeAll())[of] as Record<string, (...given: unknown[]) => unknown>;
  const failure = await failureOf(() => held[name]!(...given, "surplus"));
  expect(failure).toMatchObject({
    code: "INVALID",
    message: expect.stringMatching(new RegExp(`\\b${name}\\(.*\\) takes .*; got .*"surplus"`)),
  });
});

test.each(ALL.filter(({ call }) => call[1] !== undefined))(
  "$name of $of refuses an unknown option",
  async ({ of, name, call: [given, index] }) => {
    const all = await makeAll();
    const held = all[of] as Record<string, (...given: unknown[]) => unknown>;
    const placed = given.map((each) => (each === "the queue" ? all["Queue"] : each));
    const filled = placed.map((each) => (each === "the topic" ? all["Topic"] : each));
    filled[index!] = { ...(filled[index!] as object), surplus: 1 };
    expect(await failureOf(() => held[name]!(...filled))).toMatchObject(unknownOption);
  },
);

const unknownOption = {
  code: "INVALID",
  message: expect.stringMatching(/Unknown .* option "surplus"\. Known: /),
};

describe("functions of the package", () => {
  const callOf = (name: string, given: unknown[]): unknown => {
    const value = (library as Record<string, unknown>)[name] as {
      new (...given: unknown[]): unknown;
      (...given: unknown[]): unknown;
    };
    return /^[A-Z]/.test(name) ? new value(...given) : value(...given);
  };

  test.each(Object.entries(FUNCTIONS))("%s refuses a surplus argument", async (name, [given]) => {
    expect(await failureOf(() => callOf(name, [...given, "surplus"]))).toMatchObject({
      code: "INVALID",
      message: expect.stringMatching(new RegExp(`^${name}\\(.*\\) takes .*; got .*"surplus"`)),
    });
  });

  test.each(Object.entries(FUNCTIONS).filter(([, call]) => call[1] !== undefined))(
    "%s refuses an unknown option",
    async (name, [given, index]) => {
      const filled = [...given];
      filled[index!] = { ...(filled[index!] as object), surplus: 1 };
      expect(await failureOf(() => callOf(name, filled))).toMatchObject(unknownOption);
    },
  );
});

describe("options within options", () => {
  test.each([
    { backoff: { surplus: 1 } },
    { retention: { surplus: 1 } },
    { groups: { surplus: 1 } },
    { rateLimit: { max: 1, per: "1s", surplus: 1 } },
    { groups: { rateLimit: { max: 1, per: "1s", surplus: 1 } } },
    { window: { hours: "9-17", surplus: 1 } },
  ])("the queue option %j is refused", async (options) => {
    const dibs = (await makeAll())["Dibs"] as Dibs;
    expect(await failureOf(() => dibs.queue("q", options as never))).toMatchObject({ code: "INVALID" });
  });

  test("an unknown field of a schedule's times is refused", async () => {
    const dibs = (await makeAll())["Dibs"] as Dibs;
    const when = { every: "1h", surplus: 1 } as never;
    expect(await failureOf(() => dibs.schedule("s", when, { queue: "q" }))).toMatchObject(unknownOption);
  });

  test("an unknown option of one task of a batch is refused", async () => {
    const all = await makeAll();
    const items = [{ data: 1, surplus: 1 }] as never;
    for (const held of [all["Queue"] as Queue, all["Pipeline"] as Pipeline])
      expect(await failureOf(() => held.addMany(items))).toMatchObject(unknownOption);
  });

  test("an unknown field of a rate is refused", async () => {
    const { dead } = (await makeAll())["Queue"] as Queue;
    const rate = { max: 1, per: "1s", surplus: 1 } as never;
    expect(await failureOf(() => dead.redrive({ rate }))).toMatchObject(unknownOption);
  });
});

describe("a definition", () => {
  test("a definition together with options is refused", async () => {
    const dibs = (await makeAll())["Dibs"] as Dibs;
    const options = { lease: "1m" } as never;
    expect(() => dibs.queue(library.defineQueue("q") as never, options)).toThrow(/a definition has its own/);
    expect(() => dibs.topic(library.defineTopic("t") as never, options)).toThrow(/a definition has its own/);
  });

  test("a definition with an unknown field is refused everywhere", async () => {
    const dibs = (await makeAll())["Dibs"] as Dibs;
    const queue = { name: "q", options: {}, surplus: 1 } as never;
    expect(await failureOf(() => dibs.queue(queue))).toMatchObject(unknownOption);
    expect(await failureOf(() => dibs.work([queue], handler))).toMatchObject(unknownOption);
    expect(await failureOf(() => dibs.schedule("s", { every: "1h" }, { queue }))).toMatchObject(
      unknownOption,
    );
    const topic = { topic: "t", options: {}, surplus: 1 } as never;
    expect(await failureOf(() => dibs.topic(topic))).toMatchObject(unknownOption);
  });
});
