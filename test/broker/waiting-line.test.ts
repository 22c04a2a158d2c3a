import { describe, expect, onTestFinished, test } from "vitest";
import { createBroker } from "../../src/broker/broker.ts";
import { WaitingLine } from "../../src/broker/waiting-line.ts";
import type { ClaimCall } from "../../src/core/port.ts";
import type { ClaimedTask } from "../../src/core/task.ts";
import type { ClaimOutcome, ClaimRequest, Op } from "../../src/engine/engine.ts";
import { openMemory } from "../../src/engines/memory/engine.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";

const WISH: ClaimCall = { queues: ["q"], max: 1, worker: "w", wait: 60_000 };

/** A line in front of a store that answers when the test says so. */
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
  /** Asks that nobody has answered yet, oldest first. */
  const next = () => asked.shift() ?? expect.fail("nobody asks");
  /** Waits, after having found nothing. */
  const lineUp = async (worker: string, wish: Partial<ClaimCall> = {}): Promise<{ tasks: number | null }> => {
    const state: { tasks: number | null } = { tasks: null };
    line.claim({ ...WISH, worker, ...wish }).then(
      ({ tasks }) => (state.tasks = tasks.length),
      () => {},
    );
    while (asked.length > 0) await next().answer(0);
    return state;
  };
  return { line, clock, asked, givenBack, next, lineUp, last: () => last };
}

test("a task is handed out by the commit that adds it, to the one that waited longest", async () => {
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
    void port.claim({ ...WISH, worker, max: 5 }).then(({ tasks }) => tasks.length > 0 && served.push(worker));
  await clock.advance(0);
  batches.splice(0);
  // Behind all that is added in this moment, so that one claim finds all of it.
  await Promise.all([
    port.add([{ queue: "q", data: "1" }]),
    port.add([{ queue: "other", data: "2" }]),
    port.add([{ queue: "q", data: "3", delay: 1_000 }]),
  ]);
  await clock.advance(0);
  expect(served).toEqual(["a"]);
  expect(batches).toEqual([["add", "add", "add", "claim"]]);
});

test("one task for a thousand waiting claims brings at most two of them to the engine", async () => {
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
    void port.claim({ ...WISH, worker: `w${worker}` }).then(({ tasks }) => (served += tasks.length));
  }
  await clock.advance(0);
  claims = 0;
  await port.add([{ queue: "q", data: "x" }]);
  await clock.advance(0);
  expect(served).toBe(1);
  expect(claims).toBeLessThanOrEqual(2);

  claims = 0;
  await clock.advance(20_000);
  // Idle, they cost one question a poll.
  expect(claims).toBeLessThanOrEqual(10);

  claims = 0;
  await port.add(Array.from({ length: 100 }, () => ({ queue: "q", data: "x" })));
  await clock.advance(0);
  expect(served).toBe(101);
  expect(claims).toBeLessThanOrEqual(300);
});

test("whoever waits longest asks first", async () => {
  const { line, lineUp, asked } = makeLine();
  for (const worker of ["a", "b", "c"]) await lineUp(worker);
  line.wake({ q: 2 });
  expect(asked.map(({ op }) => op.worker)).toEqual(["a", "b"]);
});

test("a new claim lets the longest-waiting one that shares a queue with it ask first", async () => {
  const { line, lineUp, asked } = makeLine();
  await lineUp("a", { queues: ["other"] });
  await lineUp("b", { queues: ["other", "q"] });
  await lineUp("c");
  void line.claim({ ...WISH, worker: "d", queues: ["q", "x"] });
  expect(asked.map(({ op }) => op.worker)).toEqual(["b", "d"]);
});

test("one who takes many is woken instead of many", async () => {
  const { line, lineUp, asked } = makeLine();
  await lineUp("a", { max: 10 });
  await lineUp("b");
  line.wake({ q: 10 });
  expect(asked.map(({ op }) => op.worker)).toEqual(["a"]);
});

test("one who comes back with full hands wakes the next, who wakes two", async () => {
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

test("one who is woken while asking asks again", async () => {
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

test("a claim that asked before a full answer came asks again, when nobody else is left to wake", async () => {
  const { line, lineUp, asked, next } = makeLine();
  for (const worker of ["a", "b", "c"]) await lineUp(worker);
  line.wake({ q: 3 });
  const [a, b, c] = [next(), next(), next()];
  // The answer is as long as it may be, so there may be more. The others read the store perhaps before that was added.
  await a.answer(1);
  await b.answer(0);
  expect(asked.map(({ op }) => op.worker)).toEqual(["b"]);
  // One of them is enough: if it finds a task, it wakes the next.
  await c.answer(0);
  expect(asked.map(({ op }) => op.worker)).toEqual(["b"]);
});

test("a claim that finds something after a full answer of another wakes the next", async () => {
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
  // The full answer of b is news for c, which is asking too.
  await third.answer(0);
  expect(asked.map(({ op }) => op.worker)).toEqual(["c"]);
});

test("what woke one who stops waiting while asking goes to the next", async () => {
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

test("what woke one who found something else meanwhile goes to the next", async () => {
  const { line, lineUp, asked, next } = makeLine();
  await lineUp("a");
  await lineUp("b");
  line.wakeAny();
  line.wakeAny();
  await next().answer(1);
  expect(asked.map(({ op }) => op.worker)).toEqual(["b"]);
});

test("what comes for one who stopped waiting is given back", async () => {
  const { line, lineUp, givenBack, next } = makeLine();
  const stop = new AbortController();
  const a = await lineUp("a", { signal: stop.signal });
  line.wakeAny();
  stop.abort();
  await next().answer(1);
  expect(givenBack).toHaveLength(1);
  expect(a.tasks).toBeNull();
});

test("a task that is kept from one is offered to the next of another name", async () => {
  const { line, lineUp, asked, next } = makeLine();
  for (const worker of ["a", "a", "b"]) await lineUp(worker);
  line.wake({ q: 1 });
  await next().answer(0, { passed: true });
  expect(asked.map(({ op }) => op.worker)).toEqual(["b"]);
});

test("a task that is kept from one who took others is offered to the next, too", async () => {
  const { line, lineUp, asked, next } = makeLine();
  await lineUp("a", { max: 10 });
  await lineUp("b");
  line.wake({ q: 2 });
  await next().answer(1, { passed: true });
  expect(asked.map(({ op }) => op.worker)).toEqual(["b"]);
});

test("an answer that is not complete is asked for again", async () => {
  const { line, lineUp, asked, next } = makeLine();
  const a = await lineUp("a");
  line.wakeAny();
  await next().answer(0, { more: true });
  expect(asked).toHaveLength(1);
  await next().answer(1);
  expect(a.tasks).toBe(1);
});

describe("a claim that the engine has asked for in somebody's stead", () => {
  const outcome = (tasks: number, more: Partial<ClaimOutcome> = {}): ClaimOutcome => ({
    ...{ tasks: Array.from({ length: tasks }, () => ({ queue: "q" }) as ClaimedTask), policies: {} },
    ...{ passed: false, more: false, ...more },
  });

  /** Three workers wait, two of them for the same queue. */
  async function makeStanding() {
    const made = makeLine();
    const stop = new AbortController();
    const requests: ClaimRequest[] = [];
    const standing = async (worker: string, wish: Partial<ClaimCall> = {}) => {
      const state = made.lineUp(worker, { session: requests.length + 1, ...wish });
      requests.push(made.last()!);
      return state;
    };
    const a = await standing("a", { signal: stop.signal });
    const b = await standing("b");
    await standing("c", { queues: ["x"] });
    const names = () => made.asked.map(({ op }) => op.worker);
    return { ...made, a, b, request: requests[0]!, stop, names };
  }

  test("is answered, and only those who wait for something else look for themselves", async () => {
    const { line, a, request, names, clock } = await makeStanding();
    line.wakeAny({ stood: { request, outcome: outcome(0) } });
    expect(names()).toEqual(["c"]);
    line.wakeAny({ stood: { request, outcome: outcome(1) } });
    await clock.advance(0);
    expect(a.tasks).toBe(1);
    // There may be more where that came from.
    expect(names()).toEqual(["c", "b"]);
  });

  test("goes back where nobody waits for it any more, and others look", async () => {
    const { line, request, stop, names, givenBack } = await makeStanding();
    stop.abort();
    line.wakeAny({ stood: { request, outcome: outcome(1) } });
    expect(givenBack).toHaveLength(1);
    expect(names()).toEqual(["b", "c"]);
  });

  test("is answered also while it is asking: what that brings goes back", async () => {
    const { line, a, request, givenBack, next } = await makeStanding();
    line.wake({ q: 1 });
    line.wakeAny({ stood: { request, outcome: outcome(1) } });
    await next().answer(1);
    expect(a.tasks).toBe(1);
    expect(givenBack).toHaveLength(1);
  });

  test("fails as if its caller had asked, and others look", async () => {
    const { line, request, names } = await makeStanding();
    line.wakeAny({ stood: { request, error: new Error("the disk is full") } });
    expect(names()).toEqual(["b", "c"]);
  });

  test("that was kept from it is offered to the next of another name", async () => {
    const { line, request, names } = await makeStanding();
    line.wakeAny({ stood: { request, outcome: outcome(0, { passed: true }) } });
    expect(names()).toEqual(["b", "c"]);
  });
});

test("those of other queues sleep on", async () => {
  const { line, lineUp, asked } = makeLine();
  await lineUp("a", { queues: ["x"] });
  await lineUp("b", { queues: ["y", "q"] });
  line.wake({ q: 5 });
  expect(asked.map(({ op }) => op.worker)).toEqual(["b"]);
});

test("closing waits for what is under way, and gives it back", async () => {
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
