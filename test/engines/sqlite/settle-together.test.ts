import { expect, onTestFinished, test } from "vitest";
import type { DibsEvent } from "../../../src/core/event/events.ts";
import type { EventsAfter, Op } from "../../../src/engine/engine.ts";
import { SqliteStore } from "../../../src/engines/sqlite/batch/store.ts";
import { newTask, now, QUEUE, tempPath } from "./kit.ts";

const OTHER = "other";

test.each([
  { what: "of every kind", claimAndSettle },
  { what: "of several priorities", claimAndSettle: claimAndSettleByPriority },
  { what: "whose fences were exchanged", claimAndSettle: claimAndExchange },
  { what: "of groups that take turns", claimAndSettle: claimAndSettleTurns },
  { what: "of groups that take turns, one of them cancelled,", claimAndSettle: claimAndCancelTurns },
  { what: "of runs", claimAndSettle: claimAndSettleRuns },
  { what: "of two workers", claimAndSettle: claimAsTwoWorkers },
  { what: "of several attempts", claimAndSettle: claimAfterFailures },
])("successes $what settled together come to the same as one by one", ({ claimAndSettle }) => {
  const reading = now();
  const [together, oneByOne] = [false, true].map((isAlone) => {
    const store = new SqliteStore({ path: tempPath(), durability: "relaxed", store: 7 }, reading);
    onTestFinished(() => store.close());
    const run = (...ops: Op[]) => store.execute(ops, reading).outcomes;
    run({ verb: "listen", listener: "l", after: null, limit: 1 });
    // What says how much was spent is settled by itself; in these queues it changes nothing.
    const settlements = claimAndSettle(run).map((op) => (isAlone ? { ...op, spent: 1 } : op));
    return {
      settled: run(...settlements),
      again: run(...settlements),
      events: eventsByTask(run({ verb: "listen", listener: "l", after: 0, limit: 10_000 })[0]),
      after: [QUEUE, OTHER, "p/then"].flatMap((queue) =>
        run(
          { verb: "stats", queue },
          { verb: "list", queue, state: "ready", limit: 500 },
          { verb: "list", queue, state: "waiting", limit: 500 },
          { verb: "list", queue, state: "claimed", limit: 500 },
          { verb: "list", queue, state: "cancelled", limit: 500 },
          { verb: "list", queue, state: "done", limit: 500 },
        ),
      ),
    };
  }) as [unknown, unknown];
  expect(together).toEqual(oneByOne);
});

/** In their order for each task; tasks are in no order. */
function eventsByTask(outcome: unknown): [string, DibsEvent[]][] {
  const events = (outcome as { ok: EventsAfter }).ok.events.map((text) => JSON.parse(text) as DibsEvent);
  const keyOf = (event: DibsEvent): string => ("taskId" in event ? event.taskId : "");
  return [...Map.groupBy(events, keyOf)].toSorted(([a], [b]) => (a < b ? -1 : 1));
}

/** Runs of plain tasks, with everything among them that ends a run or does not belong to it. */
function claimAndSettle(run: (...ops: Op[]) => unknown[]): Op<"settle">[] {
  const tasks = Array.from({ length: 200 }, (_, i) => {
    if (i === 20) return newTask({ headers: { a: "b" } });
    if (i === 40) return newTask({ groupKey: "g" });
    if (i === 41) return newTask({ groupKey: "g" });
    if (i === 60) return newTask({ idempotencyKey: "k" });
    if (i >= 130 && i < 150) return newTask({ groupKey: `g${i % 7}` });
    if (i >= 150 && i < 170) return newTask({ idempotencyKey: `k${i}`, ttl: 60_000 });
    return newTask({ queue: i >= 100 && i < 120 ? OTHER : QUEUE });
  });
  run({ verb: "add", tasks });
  const [claimed] = run({ verb: "claim", queues: [QUEUE, OTHER], max: 195, worker: "w" }) as [
    { ok: { tasks: { id: string; fence: number }[] } },
  ];
  const held = claimed.ok.tasks;
  run({ verb: "cancel", id: held[70]!.id });
  const settlements = held.map(({ id, fence }, i): Op<"settle"> => {
    const result = i % 50 === 10 ? `${i}` : null;
    return {
      verb: "settle",
      id,
      fence: i === 80 ? fence + 1_000 : fence,
      settlement: { kind: "done", result },
    };
  });
  // Not in their order, and one of them twice.
  return [...settlements.slice(100), ...settlements.slice(0, 90).toReversed(), settlements[5]!];
}

/** Claimed one after the other, and not added so. */
function claimAndSettleByPriority(run: (...ops: Op[]) => unknown[]): Op<"settle">[] {
  run({ verb: "add", tasks: Array.from({ length: 60 }, (_, i) => newTask({ priority: i % 7 })) });
  const [claimed] = run({ verb: "claim", queues: [QUEUE], max: 50, worker: "w" }) as [
    { ok: { tasks: { id: string; fence: number }[] } },
  ];
  return claimed.ok.tasks.map(({ id, fence }) => ({
    verb: "settle",
    id,
    fence,
    settlement: { kind: "done", result: null },
  }));
}

/** Of several groups with more waiting, in another order than they were claimed in; some are of no group. */
function claimAndSettleTurns(run: (...ops: Op[]) => unknown[]): Op<"settle">[] {
  const groups = { concurrency: 4, rateLimit: [], fair: true, weight: { g1: 2 }, sticky: false };
  run({ verb: "declare", queue: QUEUE, policy: { groups, maxConcurrency: 70 } });
  const tasks = Array.from({ length: 200 }, (_, i) => newTask(i % 9 === 0 ? {} : { groupKey: `g${i % 17}` }));
  run({ verb: "add", tasks }, { verb: "add", tasks: [newTask({ queue: OTHER, groupKey: "o" })] });
  const [claimed] = run({ verb: "claim", queues: [QUEUE, OTHER], max: 90, worker: "w" }) as [
    { ok: { tasks: { id: string; fence: number }[] } },
  ];
  return claimed.ok.tasks
    .toSorted((a, b) => (a.fence % 7) - (b.fence % 7))
    .map(({ id, fence }) => ({ verb: "settle", id, fence, settlement: { kind: "done", result: null } }));
}

function claimAndCancelTurns(run: (...ops: Op[]) => unknown[]): Op<"settle">[] {
  const settlements = claimAndSettleTurns(run);
  run({ verb: "cancel", id: settlements[20]!.id });
  return settlements;
}

/** Of the first of two stages, between plain tasks. */
function claimAndSettleRuns(run: (...ops: Op[]) => unknown[]): Op<"settle">[] {
  const stages = [
    { name: QUEUE, joins: false },
    { name: "then", joins: false },
  ];
  run({ verb: "declare", queue: "p/then", policy: {} });
  const tasks = Array.from({ length: 40 }, (_, i) =>
    i % 4 === 0 ? newTask() : newTask({ queue: `p/${QUEUE}`, run: { pipeline: "p", stages } }),
  );
  run({ verb: "add", tasks });
  const [claimed] = run({ verb: "claim", queues: [QUEUE, `p/${QUEUE}`], max: 30, worker: "w" }) as [
    { ok: { tasks: { id: string; fence: number }[] } },
  ];
  return claimed.ok.tasks.map(({ id, fence }) => ({
    verb: "settle",
    id,
    fence,
    settlement: { kind: "done", result: "1" },
  }));
}

/** Added and claimed one after the other. */
function claimAsTwoWorkers(run: (...ops: Op[]) => unknown[]): Op<"settle">[] {
  run({ verb: "add", tasks: Array.from({ length: 40 }, () => newTask()) });
  return [...claimAll(run, "v", 20), ...claimAll(run, "w", 20)];
}

/** The first ten failed before. */
function claimAfterFailures(run: (...ops: Op[]) => unknown[]): Op<"settle">[] {
  run({ verb: "add", tasks: Array.from({ length: 20 }, () => newTask()) });
  const error = { name: "Error", message: "no", stack: null };
  const settlement = { kind: "fail", error, delay: 0 } as const;
  run(...claimAll(run, "v", 10).map((op) => ({ ...op, settlement })));
  run({ verb: "housekeep" });
  return [...claimAll(run, "w", 10), ...claimAll(run, "w", 10)];
}

/** The settlements of what is claimed. */
function claimAll(run: (...ops: Op[]) => unknown[], worker: string, max: number): Op<"settle">[] {
  const [claimed] = run({ verb: "claim", queues: [QUEUE], max, worker }) as [
    { ok: { tasks: { id: string; fence: number }[] } },
  ];
  const settlement = { kind: "done", result: null } as const;
  return claimed.ok.tasks.map(({ id, fence }) => ({ verb: "settle", id, fence, settlement }));
}

function claimAndExchange(run: (...ops: Op[]) => unknown[]): Op<"settle">[] {
  const [first, second, ...rest] = claimAndSettleByPriority(run) as [
    Op<"settle">,
    Op<"settle">,
    ...Op<"settle">[],
  ];
  return [{ ...first, fence: second.fence }, { ...second, fence: first.fence }, ...rest];
}
