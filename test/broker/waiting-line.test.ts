import { describe, expect, onTestFinished, test } from "vitest";
import { createBroker } from "../../src/broker/broker.ts";
import { WaitingLine } from "../../src/broker/waiting-line.ts";
import type { ClaimCall } from "../../src/core/task/claim-call.ts";
import type { ClaimedTask } from "../../src/core/task/task.ts";
import type { ClaimOutcome, ClaimRequest } from "../../src/engine/claim-request.ts";
import type { Op } from "../../src/engine/engine.ts";
import { openMemory } from "../../src/engines/memory/engine.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";

const CLAIM_CALL: ClaimCall = { queues: ["q"], max: 1, worker: "w", wait: 60_000 };

/** A waiting line in front of a store that the test answers. */
function makeLine() {
  const clock = new ManualClock();
  const asked: { op: Op<"claim">; answer: (tasks: number, more?: Partial<ClaimOutcome>) => Promise<void> }[] =
    [];
  let last: Op<"claim"> | undefined;
  const givenBack: ClaimOutcome[] = [];
  const line = new WaitingLine(
    (op) =>
      new Promise((resolve) => {
        const answer = async (tasks: number, more: Partial<ClaimOutcome> = {}): Promise<void> => {
          const found = Array.from({ length: tasks }, () => ({ queue: "q" }) as ClaimedTask);
          resolve({ tasks: found, policies: {}, passed: false, more: false, ...more });
          await clock.advance(0);
        };
        asked.push({ op, answer });
        last = op;
      }),
    (outcome) => givenBack.push(outcome),
    clock,
  );
  /** Claims that are not answered yet, oldest first. */
  const next = () => asked.shift() ?? expect.fail("no claim was sent");
  /** Waits after having found nothing. */
  const lineUp = async (
    worker: string,
    claimCall: Partial<ClaimCall> = {},
  ): Promise<{ tasks: number | null }> => {
    const state: { tasks: number | null } = { tasks: null };
    line.claim({ ...CLAIM_CALL, worker, ...claimCall }).then(
      ({ tasks }) => (state.tasks = tasks.length),
      () => {},
    );
    while (asked.length > 0) await next().answer(0);
    return state;
  };
  return { line, clock, asked, givenBack, next, lineUp, last: () => last };
}

test("the longest-waiting claim gets a task in the commit that adds it", async () => {
  const clock = new ManualClock();
  const engine = openMemory({ clock });
  const batches: string[][] = [];
  const port = createBroker(
    {
      depth: engine.depth,
      onHint: (listener) => engine.onHint(listener),
      execute: (ops) => {
        batches.push(ops.map(({ verb }) => verb));
        return engine.execute(ops);
      },
      close: () => engine.close(),
    },
    { clock },
  );
  onTestFinished(() => port.close());
  const served: string[] = [];
  for (const worker of ["a", "b"])
    void port
      .claim({ ...CLAIM_CALL, worker, max: 5 })
      .then(({ tasks }) => tasks.length > 0 && served.push(worker));
  await clock.advance(0);
  batches.splice(0);
  // Behind everything added in this moment, so that one claim finds all of it.
  await Promise.all([
    port.add([{ queue: "q", data: "1" }]),
    port.add([{ queue: "other", data: "2" }]),
    port.add([{ queue: "q", data: "3", delay: 1_000 }]),
  ]);
  await clock.advance(0);
  expect(served).toEqual(["a"]);
  expect(batches).toEqual([["add", "add", "add", "claim"]]);
});

test("one task for a thousand waiting claims causes at most two claims at the engine", async () => {
  const clock = new ManualClock();
  const engine = openMemory({ clock });
  let claims = 0;
  const port = createBroker(
    {
      depth: engine.depth,
      onHint: (listener) => engine.onHint(listener),
      execute: (ops) => {
        claims += ops.filter(({ verb }) => verb === "claim").length;
        return engine.execute(ops);
      },
      close: () => engine.close(),
    },
    { clock },
  );
  onTestFinished(() => port.close());
  let served = 0;
  for (let worker = 0; worker < 1_000; worker++) {
    void port.claim({ ...CLAIM_CALL, worker: `w${worker}` }).then(({ tasks }) => (served += tasks.length));
  }
  await clock.advance(0);
  claims = 0;
  await port.add([{ queue: "q", data: "x" }]);
  await clock.advance(0);
  expect(served).toBe(1);
  expect(claims).toBeLessThanOrEqual(2);

  claims = 0;
  await clock.advance(20_000);
  // Idle claims cost one claim at the engine per poll.
  expect(claims).toBeLessThanOrEqual(10);

  claims = 0;
  await port.add(Array.from({ length: 100 }, () => ({ queue: "q", data: "x" })));
  await clock.advance(0);
  expect(served).toBe(101);
  expect(claims).toBeLessThanOrEqual(300);
});

test("the claim that has waited longest is sent to the engine first", async () => {
  const { line, lineUp, asked } = makeLine();
  for (const worker of ["a", "b", "c"]) await lineUp(worker);
  line.wake({ q: 2 });
  expect(asked.map(({ op }) => op.worker)).toEqual(["a", "b"]);
});

test("a new claim is sent to the engine after the longest-waiting claim that shares a queue with it", async () => {
  const { line, lineUp, asked } = makeLine();
  await lineUp("a", { queues: ["other"] });
  await lineUp("b", { queues: ["other", "q"] });
  await lineUp("c");
  void line.claim({ ...CLAIM_CALL, worker: "d", queues: ["q", "x"] });
  expect(asked.map(({ op }) => op.worker)).toEqual(["b", "d"]);
});

test("one claim for many tasks is woken instead of many claims", async () => {
  const { line, lineUp, asked } = makeLine();
  await lineUp("a", { max: 10 });
  await lineUp("b");
  line.wake({ q: 10 });
  expect(asked.map(({ op }) => op.worker)).toEqual(["a"]);
});

test("a claim with a full answer wakes the next claim, which wakes two", async () => {
  const { line, lineUp, asked, next } = makeLine();
  for (const worker of ["a", "b", "c", "d", "e"]) await lineUp(worker);
  line.wakeAny();
  await next().answer(1);
  expect(asked.map(({ op }) => op.worker)).toEqual(["b"]);
  await next().answer(1);
  expect(asked.map(({ op }) => op.worker)).toEqual(["c", "d"]);
  await next().answer(0);
  await next().answer(0);
  expect(asked).toEqual([]);
});

test("a claim that is woken during its call is retried", async () => {
  const { line, lineUp, asked, next } = makeLine();
  await lineUp("a");
  line.wake({ q: 1 });
  line.wake({ q: 1 });
  expect(asked).toHaveLength(1);
  await next().answer(0);
  expect(asked).toHaveLength(1);
  await next().answer(0);
  expect(asked).toEqual([]);
});

test("a claim whose call began before another's full answer is retried if no other is left to wake", async () => {
  const { line, lineUp, asked, next } = makeLine();
  for (const worker of ["a", "b", "c"]) await lineUp(worker);
  line.wake({ q: 3 });
  const [a, b, c] = [next(), next(), next()];
  // The answer is full, so there may be more. The other calls may have read the store before those tasks were added.
  await a.answer(1);
  await b.answer(0);
  expect(asked.map(({ op }) => op.worker)).toEqual(["b"]);
  // One retry is enough: if it finds a task, it wakes the next.
  await c.answer(0);
  expect(asked.map(({ op }) => op.worker)).toEqual(["b"]);
});

test("a claim that finds tasks after another's full answer wakes the next", async () => {
  const { line, lineUp, asked, next } = makeLine();
  const b = await lineUp("a").then(() => lineUp("b"));
  await lineUp("c", { queues: ["q", "x"] });
  line.wake({ q: 2 });
  const [first, second] = [next(), next()];
  line.wake({ x: 1 });
  const third = next();
  await first.answer(1);
  await second.answer(1);
  expect(b.tasks).toBe(1);
  // The full answer of b also concerns c, whose call is in progress.
  await third.answer(0);
  expect(asked.map(({ op }) => op.worker)).toEqual(["c"]);
});

test("a wake-up of a claim that stops waiting during its call goes to the next claim", async () => {
  const { line, lineUp, asked, next } = makeLine();
  const stop = new AbortController();
  await lineUp("a", { signal: stop.signal });
  await lineUp("b");
  line.wakeAny();
  line.wake({ q: 1 });
  stop.abort();
  await next().answer(0);
  expect(asked.map(({ op }) => op.worker)).toEqual(["b"]);
});

test("a wake-up of a claim that found other tasks meanwhile goes to the next claim", async () => {
  const { line, lineUp, asked, next } = makeLine();
  await lineUp("a");
  await lineUp("b");
  line.wakeAny();
  line.wakeAny();
  await next().answer(1);
  expect(asked.map(({ op }) => op.worker)).toEqual(["b"]);
});

test("tasks for a claim that stopped waiting are released", async () => {
  const { line, lineUp, givenBack, next } = makeLine();
  const stop = new AbortController();
  const a = await lineUp("a", { signal: stop.signal });
  line.wakeAny();
  stop.abort();
  await next().answer(1);
  expect(givenBack).toHaveLength(1);
  expect(a.tasks).toBeNull();
});

test("a task that one worker may not claim is offered to the next claim of another worker", async () => {
  const { line, lineUp, asked, next } = makeLine();
  for (const worker of ["a", "a", "b"]) await lineUp(worker);
  line.wake({ q: 1 });
  await next().answer(0, { passed: true });
  expect(asked.map(({ op }) => op.worker)).toEqual(["b"]);
});

test("a task that one worker may not claim is offered to another worker, also if the first one took other tasks", async () => {
  const { line, lineUp, asked, next } = makeLine();
  await lineUp("a", { max: 10 });
  await lineUp("b");
  line.wake({ q: 2 });
  await next().answer(1, { passed: true });
  expect(asked.map(({ op }) => op.worker)).toEqual(["b"]);
});

test("an incomplete answer is followed by another claim", async () => {
  const { line, lineUp, asked, next } = makeLine();
  const a = await lineUp("a");
  line.wakeAny();
  await next().answer(0, { more: true });
  expect(asked).toHaveLength(1);
  await next().answer(1);
  expect(a.tasks).toBe(1);
});

describe("a waiting claim that the engine has retried", () => {
  const outcome = (tasks: number, more: Partial<ClaimOutcome> = {}): ClaimOutcome => ({
    ...{ tasks: Array.from({ length: tasks }, () => ({ queue: "q" }) as ClaimedTask), policies: {} },
    ...{ passed: false, more: false, ...more },
  });

  /** Three workers wait, two of them for the same queue. */
  async function makeWaiting() {
    const made = makeLine();
    const stop = new AbortController();
    const requests: ClaimRequest[] = [];
    const standing = async (worker: string, claimCall: Partial<ClaimCall> = {}) => {
      const state = made.lineUp(worker, { session: requests.length + 1, ...claimCall });
      requests.push(made.last()!);
      return state;
    };
    const a = await standing("a", { signal: stop.signal });
    const b = await standing("b");
    await standing("c", { queues: ["x"] });
    const names = () => made.asked.map(({ op }) => op.worker);
    return { ...made, a, b, request: requests[0]!, stop, names };
  }

  test("a retried claim is answered, and only claims for other queues are woken", async () => {
    const { line, a, request, names, clock } = await makeWaiting();
    line.wakeAny({ retriedClaim: { request, outcome: outcome(0) } });
    expect(names()).toEqual(["c"]);
    line.wakeAny({ retriedClaim: { request, outcome: outcome(1) } });
    await clock.advance(0);
    expect(a.tasks).toBe(1);
    // There may be more tasks.
    expect(names()).toEqual(["c", "b"]);
  });

  test("tasks of a retried claim that no longer waits are released, and other claims are woken", async () => {
    const { line, request, stop, names, givenBack } = await makeWaiting();
    stop.abort();
    line.wakeAny({ retriedClaim: { request, outcome: outcome(1) } });
    expect(givenBack).toHaveLength(1);
    expect(names()).toEqual(["b", "c"]);
  });

  test("a retried claim is answered during its own call, and the tasks of that call are released", async () => {
    const { line, a, request, givenBack, next } = await makeWaiting();
    line.wake({ q: 1 });
    line.wakeAny({ retriedClaim: { request, outcome: outcome(1) } });
    await next().answer(1);
    expect(a.tasks).toBe(1);
    expect(givenBack).toHaveLength(1);
  });

  test("a retried claim that fails is rejected with its error, and other claims are woken", async () => {
    const { line, request, names } = await makeWaiting();
    line.wakeAny({ retriedClaim: { request, error: new Error("the disk is full") } });
    expect(names()).toEqual(["b", "c"]);
  });

  test("a task that the worker of a retried claim may not claim is offered to another worker", async () => {
    const { line, request, names } = await makeWaiting();
    line.wakeAny({ retriedClaim: { request, outcome: outcome(0, { passed: true }) } });
    expect(names()).toEqual(["b", "c"]);
  });
});

test("a retried claim wakes no claims of other queues", async () => {
  const { line, lineUp, asked } = makeLine();
  await lineUp("a", { queues: ["x"] });
  await lineUp("b", { queues: ["y", "q"] });
  line.wake({ q: 5 });
  expect(asked.map(({ op }) => op.worker)).toEqual(["b"]);
});

test("closing the waiting line waits for calls in progress, and releases their tasks", async () => {
  const { line, lineUp, givenBack, next } = makeLine();
  const a = await lineUp("a");
  line.wakeAny();
  let closed = false;
  const closing = line.close().then(() => (closed = true));
  await Promise.resolve();
  expect(closed).toBe(false);
  await next().answer(1);
  await closing;
  expect(a.tasks).toBe(0);
  expect(givenBack).toHaveLength(1);
});
