import type { Reading } from "../../../src/core/clock.ts";
import { DEFAULT_POLICY } from "../../../src/core/policy.ts";
import { END_STATES, PENDING_STATES } from "../../../src/core/task.ts";
import type { Op, VerbName, Verbs } from "../../../src/engine/engine.ts";
import type { SqliteStore } from "../../../src/engines/sqlite/store.ts";
import { newTask, now, QUEUE, worker } from "./kit.ts";

const ERROR = { name: "Error", message: "no", stack: null };

/** Takes a store through everything it can do, so that it has used all its statements. */
export function tour(store: SqliteStore): void {
  let reading: Reading = now();
  const pass = (ms: number): void => {
    const { boot, wall, elapsed, awake } = reading;
    reading = { boot, wall: wall + ms, elapsed: elapsed + ms, awake: awake + ms };
  };
  const ask = <V extends VerbName>(op: Op<V>): Verbs[V]["out"] => {
    const outcome = store.run([op], reading).outcomes[0];
    if ("refused" in outcome) throw new Error(`${op.verb}: ${outcome.refused.message}`);
    return outcome.ok;
  };
  const claim = (max: number, session?: number) =>
    ask({ verb: "claim", queues: [QUEUE], max, worker: "w", ...(session !== undefined && { session }) })
      .tasks;
  const settle = (task: { id: string; fence: number }, settlement: Op<"settle">["settlement"]) =>
    ask({ verb: "settle", id: task.id, fence: task.fence, settlement });

  ask({ verb: "listen", listener: "l", after: null, limit: 10 });
  ask({ verb: "declare", queue: QUEUE, policy: { maxDepth: 10_000, lease: 40_000 } });
  const { session } = ask({ verb: "join", worker: worker("w"), lease: 30_000 });
  const other = ask({ verb: "join", worker: worker("other"), lease: 30_000 });
  const many = Array.from({ length: 80 }, (_, i) => newTask(i % 2 === 0 ? {} : { headers: { n: `${i}` } }));
  ask({
    verb: "add",
    tasks: [
      newTask({ groupKey: "g" }),
      newTask({ groupKey: "g" }),
      newTask({ groupKey: "h", delay: 1_000 }),
      newTask({ groupKey: "h", delay: 1_000 }),
      newTask({ idempotencyKey: "k" }),
      newTask({ idempotencyKey: "k" }),
      newTask({ ttl: 500, delay: 5_000 }),
      newTask({ ttl: 86_400_000 }),
      ...many,
    ],
  });
  const cancelled = ask({ verb: "add", tasks: [newTask()] })[0]!;
  ask({ verb: "cancel", id: cancelled.id });
  pass(2_000);
  ask({ verb: "tend" });
  ask({ verb: "unlisten", listener: "l" });

  const held = claim(12, session);
  settle(held[0]!, { kind: "fail", error: ERROR, delay: 1_000 });
  settle(held[1]!, { kind: "reject", error: ERROR });
  settle(held[2]!, { kind: "release", started: true });
  settle(held[3]!, { kind: "done", result: "1", adds: [newTask()] });
  ask({ verb: "extend", id: held[4]!.id, fence: held[4]!.fence, lease: 1_000 });
  ask({ verb: "progress", id: held[4]!.id, fence: held[4]!.fence, value: 0.5, note: "half" });
  ask({ verb: "cancel", id: held[5]!.id });
  pass(5_000);
  ask({ verb: "beat", sessions: [session, other.session] });
  const settleTogether = (tasks: { id: string; fence: number }[]): void => {
    const settlement = { kind: "done", result: null } as const;
    const ops = tasks.map(({ id, fence }): Op<"settle"> => ({ verb: "settle", id, fence, settlement }));
    store.run(ops, reading);
  };
  settleTogether(held.slice(6, 9));
  const rejected = [claim(1)[0]!, claim(1)[0]!];
  for (const task of rejected) settle(task, { kind: "reject", error: ERROR });
  claim(1);
  claim(0);
  // What failed is kept from "w"; then "other" gets it, and by and by everybody may.
  const kept = ask({ verb: "claim", queues: [QUEUE], max: 100, worker: "other" }).tasks;
  settle(kept[0]!, { kind: "fail", error: ERROR, delay: 0 });
  settle(kept[1]!, { kind: "fail", error: ERROR, delay: 0 });
  claim(1);
  pass(10_000);
  ask({ verb: "tend" });
  pass(40_000);
  ask({ verb: "tend" });

  // Groups with one waiting and with none, and keys.
  const marked = Array.from({ length: 36 }, (_, i) =>
    newTask({ priority: 9, ...(i < 27 ? { groupKey: `m${i % 18}` } : { idempotencyKey: `m${i}` }) }),
  );
  ask({ verb: "add", tasks: marked });
  settleTogether(claim(27));

  for (const state of [...PENDING_STATES, ...END_STATES])
    ask({ verb: "list", queue: QUEUE, state, limit: 1 });
  for (const filter of [{}, { ids: [held[1]!.id] }, { error: "n" }, { pattern: "Error: no" }]) {
    ask({ verb: "list", queue: QUEUE, state: "dead", filter, limit: 5 });
  }
  for (const by of ["fingerprint", "worker", "header:n"] as const) {
    ask({ verb: "patterns", queue: QUEUE, by, limit: 5 });
  }
  for (const { id } of held) {
    ask({ verb: "get", id });
    ask({ verb: "history", id });
    ask({ verb: "ends", ids: [id] });
  }
  ask({ verb: "queues" });
  ask({ verb: "workers" });
  ask({ verb: "stats", queue: QUEUE });
  ask({ verb: "redrive", queue: QUEUE, filter: { ids: [held[1]!.id] }, spacing: 0 });
  ask({ verb: "discard", queue: QUEUE, filter: {} });
  ask({ verb: "pause", queue: QUEUE, paused: true });
  ask({ verb: "pause", queue: QUEUE, paused: false });
  ask({ verb: "declare", queue: QUEUE, policy: { retention: { age: 0, count: 0 } } });
  ask({ verb: "prune", limit: 1_000 });
  ask({ verb: "purge", queue: QUEUE, limit: 2 });
  for (const group of ["a", "b"]) {
    ask({ verb: "subscribe", pattern: "t.*", group, queue: `t/${group}` });
    ask({ verb: "subscribe", pattern: "t.*", group, queue: `t/${group}` });
  }
  // Two queues in turn, in one transaction.
  const published = Array.from({ length: 40 }, (_, i): Op => ({
    verb: "publish",
    message: { topic: "t.x", data: `${i}` },
  }));
  store.run(published, reading);
  const plain = Array.from({ length: 80 }, (_, i) => newTask({ queue: i % 2 ? "t/a" : "t/b" }));
  ask({ verb: "add", tasks: plain });
  ask({ verb: "subscriptions" });
  ask({ verb: "put", kind: "k", name: "n", value: "1", dueAt: 0 });
  ask({ verb: "tend" });
  ask({ verb: "documents", kind: "k" });
  ask({ verb: "documents", kind: "k", name: "n" });
  ask({ verb: "put", kind: "k", name: "n", value: null });
  ask({ verb: "subscriptions", topic: "t.x" });
  ask({ verb: "unsubscribe", pattern: "t.*", group: "b" });
  ask({ verb: "drop", queue: "t/a", limit: 10_000 });
  runs(ask, (ops) => void store.run(ops, reading));
  limits(ask, pass);
  ask({ verb: "leave", session: ask({ verb: "join", worker: worker("z"), lease: 1_000 }).session });
  ask({ verb: "drop", queue: QUEUE, limit: 10_000 });
}

/** Runs of a pipeline, many and one by one. */
function runs(
  ask: <V extends VerbName>(op: Op<V>) => Verbs[V]["out"],
  runTogether: (ops: Op[]) => void,
): void {
  const stages = ["a", "b", "c"].map((name) => ({ name, joins: name === "c" }));
  const run = { pipeline: "p", stages };
  const begin = (fields: Partial<Op<"add">["tasks"][number]> = {}) =>
    newTask({ queue: "p/a", run, ...fields });
  const claim = (stage: string, max = 100) =>
    ask({ verb: "claim", queues: [`p/${stage}`], max, worker: "w" }).tasks;
  const added = ask({ verb: "add", tasks: Array.from({ length: 80 }, () => begin()) });
  ask({ verb: "add", tasks: [begin({ headers: { n: "1" }, priority: 1 }), begin({ delay: 1 })] });
  const [parted, failed, ...others] = claim("a", 75);
  const done = { kind: "done", result: "1" } as const;
  ask({ verb: "settle", ...ref(parted!), settlement: { kind: "done", result: "[1,2]", each: true } });
  ask({ verb: "settle", ...ref(failed!), settlement: { kind: "reject", error: ERROR } });
  runTogether(others.map((task): Op => ({ verb: "settle", ...ref(task), settlement: done })));
  runTogether(claim("b").map((task): Op => ({ verb: "settle", ...ref(task), settlement: done })));
  for (const task of claim("c", 40)) ask({ verb: "settle", ...ref(task), settlement: done });
  ask({ verb: "run", id: added[0]!.id, limit: 10 });
  ask({ verb: "ends", ids: added.map(({ id }) => id), of: "runs" });
  ask({ verb: "redrive", queue: "p/a", filter: {}, spacing: 0 });
  ask({ verb: "cancelRun", id: added.at(-1)!.id });
  ask({ verb: "declare", queue: "p/a", policy: { retention: { age: 0, count: 0 } } });
  ask({ verb: "prune", limit: 10 });
  ask({ verb: "put", kind: "k", name: "n", value: "1" });
  ask({ verb: "put", kind: "k", name: "n", value: null });
  ask({ verb: "documents", kind: "k" });
  ask({ verb: "purge", queue: "p/c", limit: 2 });
  ask({ verb: "drop", queue: "p/a", limit: 10_000 });
}

/** A queue with limits to all that can be limited, and then with none. */
function limits(ask: <V extends VerbName>(op: Op<V>) => Verbs[V]["out"], pass: (ms: number) => void): void {
  const queue = "limited";
  const hour = { per: 3_600_000, pace: false };
  const tokens = { max: 100, ...hour, unit: "tokens" };
  const { session } = ask({ verb: "join", worker: { ...worker("s"), queues: [queue] }, lease: 86_400_000 });
  const claim = (max: number, more: Partial<Op<"claim">> = {}) =>
    ask({ verb: "claim", queues: [queue], max, worker: "s", session, ...more }).tasks;
  const settle = (task: { id: string; fence: number }, settlement: Op<"settle">["settlement"]) =>
    ask({ verb: "settle", ...ref(task), settlement, spent: 1 });
  const hold = { kind: "hold", error: ERROR, delay: 1_000 } as const;
  const add = (fields: Partial<Op<"add">["tasks"][number]>) =>
    ask({ verb: "add", tasks: Array.from({ length: 6 }, () => newTask({ queue, ...fields })) });

  add({ groupKey: "early" });
  settle(claim(1)[0]!, hold);
  ask({
    verb: "declare",
    queue,
    policy: {
      maxConcurrency: 50,
      rateLimit: [tokens, { max: 90, ...hour, unit: null }],
      groups: { concurrency: 3, rateLimit: [tokens], fair: true, weight: { a: 2 }, sticky: true },
    },
  });
  for (const groupKey of ["a", "b", "c"]) add({ groupKey, cost: 2 });
  add({ ttl: 100 });
  add({ urgent: true });
  const [first, second, third, ...others] = claim(12);
  settle(first!, { kind: "fail", error: ERROR, delay: 0 });
  settle(second!, hold);
  settle(third!, { kind: "fail", error: ERROR, delay: 500 });
  const { session: again } = ask({ verb: "rejoin", session, fences: others.map(({ fence }) => fence) });
  ask({ verb: "list", queue, state: "ready", limit: 2 });
  ask({ verb: "stats", queue });
  ask({ verb: "claim", queues: [queue], max: 1, worker: "t" });
  for (const { id } of add({ groupKey: "d" })) {
    ask({ verb: "signal", id, name: "go", value: null });
    ask({ verb: "cancel", id });
  }
  pass(2_000);
  ask({ verb: "tend" });
  claim(100, { session: again });
  ask({ verb: "declare", queue, policy: { window: { hours: "22:00-06:00", tz: "UTC" } } });
  claim(100, { session: again });
  pass(43_200_000);
  claim(100, { session: again });
  ask({ verb: "tend" });
  ask({ verb: "purge", queue, limit: 3 });
  ask({ verb: "leave", session: again });
  ask({ verb: "prune", limit: 10 });
  const { groups, rateLimit, maxConcurrency, window } = DEFAULT_POLICY;
  ask({ verb: "declare", queue, policy: { groups, rateLimit, maxConcurrency, window } });
  ask({ verb: "purge", queue, limit: 1_000 });
  ask({ verb: "prune", limit: 10 });
  ask({ verb: "drop", queue, limit: 1_000 });
}

function ref({ id, fence }: { id: string; fence: number }): { id: string; fence: number } {
  return { id, fence };
}
