import type { Reading } from "../../src/core/time/clock.ts";
import { DEFAULT_POLICY } from "../../src/core/queue/policy.ts";
import { verificationQueue } from "../../src/core/handler/verification.ts";
import { END_STATES, PENDING_STATES } from "../../src/core/task/task.ts";
import type { Op, Outcome, VerbName, Verbs } from "../../src/engine/engine.ts";
import { newTask, now, QUEUE, worker } from "./sqlite/kit.ts";

const ERROR = { name: "Error", message: "no", stack: null };

interface Toured {
  execute(ops: Op[], reading: Reading): { outcomes: Outcome[] } | Promise<{ outcomes: Outcome[] }>;
}

type Ask = <V extends VerbName>(op: Op<V>) => Promise<Verbs[V]["out"]>;
type RunTogether = (ops: Op[]) => Promise<unknown>;
interface Claimed {
  id: string;
  fence: number;
}

/** Takes a store through everything it can do, so that it has used all its statements. */
export async function tour(store: Toured): Promise<void> {
  let reading: Reading = now();
  const pass = (ms: number): void => {
    const { boot, wall, elapsed, awake } = reading;
    reading = { boot, wall: wall + ms, elapsed: elapsed + ms, awake: awake + ms };
  };
  const ask: Ask = async <V extends VerbName>(op: Op<V>) => {
    const { outcomes } = await store.execute([op], reading);
    const outcome = outcomes[0] as Outcome<V>;
    if ("refused" in outcome) throw new Error(`${op.verb}: ${outcome.refused.message}`);
    return outcome.ok;
  };
  const runTogether: RunTogether = async (ops) => store.execute(ops, reading);
  const claim = async (max: number, session?: number) => {
    const by = { worker: "w", ...(session !== undefined && { session }) };
    return (await ask({ verb: "claim", queues: [QUEUE], max, ...by })).tasks;
  };
  const settle = (task: Claimed, settlement: Op<"settle">["settlement"]) =>
    ask({ verb: "settle", ...ref(task), settlement });

  await ask({ verb: "listen", listener: "l", after: null, limit: 10 });
  await ask({ verb: "declare", queue: QUEUE, policy: { maxDepth: 10_000, lease: 40_000 } });
  const { session } = await ask({ verb: "join", worker: worker("w"), lease: 30_000 });
  const other = await ask({ verb: "join", worker: worker("other"), lease: 30_000 });
  const many = Array.from({ length: 80 }, (_, i) => newTask(i % 2 === 0 ? {} : { headers: { n: `${i}` } }));
  await ask({
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
  const [cancelled] = await ask({ verb: "add", tasks: [newTask()] });
  await ask({ verb: "cancel", id: cancelled!.id });
  pass(2_000);
  await ask({ verb: "housekeep" });
  await ask({ verb: "unlisten", listener: "l" });

  const held = await claim(12, session);
  await settle(held[0]!, { kind: "fail", error: ERROR, delay: 1_000 });
  await settle(held[1]!, { kind: "reject", error: ERROR });
  await settle(held[2]!, { kind: "release", started: true });
  await settle(held[3]!, { kind: "done", result: "1", adds: [newTask()] });
  await ask({ verb: "extend", id: held[4]!.id, fence: held[4]!.fence, lease: 1_000 });
  await ask({ verb: "progress", id: held[4]!.id, fence: held[4]!.fence, value: 0.5, note: "half" });
  await ask({ verb: "cancel", id: held[5]!.id });
  pass(5_000);
  await ask({ verb: "heartbeat", sessions: [session, other.session] });
  const settleTogether = (tasks: Claimed[]) => {
    const settlement = { kind: "done", result: null } as const;
    return runTogether(tasks.map((task): Op<"settle"> => ({ verb: "settle", ...ref(task), settlement })));
  };
  await settleTogether(held.slice(6, 9));
  const rejected = [...(await claim(1)), ...(await claim(1))];
  for (const task of rejected) await settle(task, { kind: "reject", error: ERROR });
  await claim(1);
  await claim(0);
  // What failed is kept from "w"; then "other" gets it, and by and by everybody may.
  const { tasks: kept } = await ask({ verb: "claim", queues: [QUEUE], max: 100, worker: "other" });
  await settle(kept[0]!, { kind: "fail", error: ERROR, delay: 0 });
  await settle(kept[1]!, { kind: "fail", error: ERROR, delay: 0 });
  await claim(1);
  pass(10_000);
  await ask({ verb: "housekeep" });
  pass(40_000);
  await ask({ verb: "housekeep" });

  // Groups with one waiting and with none, and keys.
  const marked = Array.from({ length: 36 }, (_, i) =>
    newTask({ priority: 9, ...(i < 27 ? { groupKey: `m${i % 18}` } : { idempotencyKey: `m${i}` }) }),
  );
  await ask({ verb: "add", tasks: marked });
  await settleTogether(await claim(27));

  for (const state of [...PENDING_STATES, ...END_STATES])
    await ask({ verb: "list", queue: QUEUE, state, limit: 1 });
  for (const filter of [{}, { ids: [held[1]!.id] }, { error: "n" }, { pattern: "Error: no" }]) {
    await ask({ verb: "list", queue: QUEUE, state: "dead", filter, limit: 5 });
  }
  for (const by of ["fingerprint", "worker", "header:n"] as const) {
    await ask({ verb: "patterns", queue: QUEUE, by, limit: 5 });
  }
  for (const { id } of held) {
    await ask({ verb: "get", id });
    await ask({ verb: "history", id });
    await ask({ verb: "ends", ids: [id] });
  }
  await ask({ verb: "queues", limit: 2 });
  await ask({ verb: "queues", queue: QUEUE, limit: 1 });
  await ask({ verb: "workers", limit: 2 });
  await ask({ verb: "workers", queue: QUEUE, limit: 2 });
  await ask({ verb: "stats", queue: QUEUE });
  await ask({ verb: "redrive", queue: QUEUE, filter: { ids: [held[1]!.id] }, spacing: 0 });
  await ask({ verb: "discard", queue: QUEUE, filter: {} });
  await ask({ verb: "pause", queue: QUEUE, paused: true });
  await ask({ verb: "pause", queue: QUEUE, paused: false });
  await ask({ verb: "declare", queue: QUEUE, policy: { retention: { age: 0, count: 0 } } });
  await ask({ verb: "prune", limit: 1_000 });
  await ask({ verb: "purge", queue: QUEUE, limit: 2 });
  for (const group of ["a", "b"]) {
    await ask({ verb: "subscribe", pattern: "t.*", group, queue: `t/${group}` });
    await ask({ verb: "subscribe", pattern: "t.*", group, queue: `t/${group}` });
  }
  // Two queues in turn, in one transaction.
  const published = Array.from({ length: 40 }, (_, i): Op => ({
    verb: "publish",
    message: { topic: "t.x", data: `${i}` },
  }));
  await runTogether(published);
  const plain = Array.from({ length: 80 }, (_, i) => newTask({ queue: i % 2 ? "t/a" : "t/b" }));
  await ask({ verb: "add", tasks: plain });
  await ask({ verb: "subscriptions", limit: 2 });
  await ask({ verb: "put", kind: "k", name: "n", value: "1", dueAt: 0 });
  await ask({ verb: "housekeep" });
  await ask({ verb: "documents", kind: "k", limit: 2 });
  await ask({ verb: "documents", kind: "k", name: "n", limit: 1 });
  await ask({ verb: "put", kind: "k", name: "n", value: null });
  await ask({ verb: "subscriptions", topic: "t.x", limit: 2 });
  await ask({ verb: "unsubscribe", pattern: "t.*", group: "b" });
  await ask({ verb: "drop", queue: "t/a", limit: 10_000 });
  await runs(ask, runTogether);
  await families(ask, pass);
  await limits(ask, pass);
  await large(ask);
  await verdicts(ask);
  await elsewhere(ask, pass);
  await manyQueues(ask);
  await everyPlace(ask);
  const { session: last } = await ask({ verb: "join", worker: worker("z"), lease: 1_000 });
  await ask({ verb: "leave", session: last });
  await ask({ verb: "drop", queue: QUEUE, limit: 10_000 });
}

/** Runs of a pipeline, many and one by one. */
/** Parents that wait for children, and all ways in which both can end. */
async function families(ask: Ask, pass: (ms: number) => void): Promise<void> {
  const queues = ["parents", "children"] as const;
  const claimFrom = async (queue: string, max = 1) =>
    (await ask({ verb: "claim", queues: [queue], max, worker: "w" })).tasks;
  const begin = async (names: string[], fields: Partial<Op<"add">["tasks"][number]> = {}) => {
    await ask({ verb: "add", tasks: [newTask({ queue: "parents" })] });
    const [parent] = await claimFrom("parents");
    const children = names.map((name) => ({ name, task: newTask({ queue: "children", ...fields }) }));
    await ask({ verb: "spawn", ...ref(parent!), children });
    await ask({ verb: "spawn", ...ref(parent!), children });
    return parent!;
  };
  const settle = (task: Claimed, settlement: Op<"settle">["settlement"]) =>
    ask({ verb: "settle", ...ref(task), settlement });
  const wait = (task: Claimed, signal: string) => settle(task, { kind: "park", signal, timeout: 50 });
  const look = async (id: string) => {
    await ask({ verb: "children", id, limit: 10 });
    await ask({ verb: "children", id, limit: 10, ends: true });
    await ask({ verb: "get", id });
  };
  const woken = await begin(["a", "b", "c"]);
  await wait(woken, "children:1,3");
  const [first, second, third] = await claimFrom("children", 3);
  await settle(first!, { kind: "done", result: "1" });
  await settle(second!, { kind: "reject", error: ERROR });
  await look(woken.id);
  await settle(third!, { kind: "fail", error: ERROR, delay: 10 });
  pass(20);
  await ask({ verb: "housekeep" });
  await settle((await claimFrom("children"))[0]!, { kind: "done", result: null });
  await ask({ verb: "redrive", queue: "children", filter: {}, spacing: 0 });
  await settle((await claimFrom("children"))[0]!, { kind: "reject", error: ERROR });
  await ask({ verb: "discard", queue: "children", filter: {} });
  await settle((await claimFrom("parents"))[0]!, { kind: "done", result: null });
  await ask({ verb: "change", id: woken.id, change: { kind: "again" } });
  await ask({ verb: "cancel", id: woken.id });
  const cancelled = await begin(["a", "b"], { delay: 1_000 });
  await ask({ verb: "cancel", id: cancelled.id });
  await settle(cancelled, { kind: "release", started: true });
  const timedOut = await begin(["a"], { ttl: 30 });
  await wait(timedOut, "children:1-1000");
  pass(40);
  await ask({ verb: "housekeep" });
  await begin(["a", "b"]);
  await ask({ verb: "prune", limit: 100 });
  for (const queue of queues) await ask({ verb: "purge", queue, limit: 100 });
  for (const queue of queues) await ask({ verb: "drop", queue, limit: 100 });
}

async function runs(ask: Ask, runTogether: RunTogether): Promise<void> {
  const stages = ["a", "b", "c"].map((name) => ({ name, joins: name === "c" }));
  const run = { pipeline: "p", stages };
  const begin = (fields: Partial<Op<"add">["tasks"][number]> = {}) =>
    newTask({ queue: "p/a", run, ...fields });
  const claim = async (stage: string, max = 100) =>
    (await ask({ verb: "claim", queues: [`p/${stage}`], max, worker: "w" })).tasks;
  const added = await ask({ verb: "add", tasks: Array.from({ length: 80 }, () => begin()) });
  await ask({ verb: "add", tasks: [begin({ headers: { n: "1" }, priority: 1 }), begin({ delay: 1 })] });
  const [parted, failed, ...others] = await claim("a", 75);
  const done = { kind: "done", result: "1" } as const;
  await ask({ verb: "settle", ...ref(parted!), settlement: { kind: "done", result: "[1,2]", each: true } });
  await ask({ verb: "settle", ...ref(failed!), settlement: { kind: "reject", error: ERROR } });
  const settle = (task: Claimed): Op => ({ verb: "settle", ...ref(task), settlement: done });
  await runTogether(others.map(settle));
  await runTogether((await claim("b")).map(settle));
  for (const task of await claim("c", 40)) await ask({ verb: "settle", ...ref(task), settlement: done });
  await ask({ verb: "run", id: added[0]!.id, limit: 10 });
  await ask({ verb: "ends", ids: added.map(({ id }) => id), of: "runs" });
  await ask({ verb: "redrive", queue: "p/a", filter: {}, spacing: 0 });
  await ask({ verb: "cancelRun", id: added.at(-1)!.id });
  await ask({ verb: "declare", queue: "p/a", policy: { retention: { age: 0, count: 0 } } });
  await ask({ verb: "prune", limit: 10 });
  await ask({ verb: "put", kind: "k", name: "n", value: "1" });
  await ask({ verb: "put", kind: "k", name: "n", value: null });
  await ask({ verb: "documents", kind: "k", limit: 2 });
  await ask({ verb: "purge", queue: "p/c", limit: 2 });
  await ask({ verb: "drop", queue: "p/a", limit: 10_000 });
}

/** Payloads and results that do not all fit into one answer. */
async function large(ask: Ask): Promise<void> {
  const queue = "large";
  const data = JSON.stringify("x".repeat(1024 * 1024));
  await ask({ verb: "declare", queue, policy: { maxPayload: 2 * data.length } });
  const tasks = Array.from({ length: 8 }, () => ({ queue, data }));
  const added = await ask({ verb: "add", tasks });
  const { tasks: held } = await ask({ verb: "claim", queues: [queue], max: 100, worker: "w" });
  for (const task of held)
    await ask({ verb: "settle", ...ref(task), settlement: { kind: "done", result: data } });
  await ask({ verb: "ends", ids: added.map(({ id }) => id) });
  await ask({ verb: "drop", queue, limit: 10_000 });
}

/** A queue with limits to all that can be limited, and then with none. */
async function limits(ask: Ask, pass: (ms: number) => void): Promise<void> {
  const queue = "limited";
  const hour = { per: 3_600_000, pace: false };
  const tokens = { max: 100, ...hour, unit: "tokens" };
  const { session } = await ask({
    verb: "join",
    worker: { ...worker("s"), queues: [queue] },
    lease: 86_400_000,
  });
  const claim = async (max: number, more: Partial<Op<"claim">> = {}) =>
    (await ask({ verb: "claim", queues: [queue], max, worker: "s", session, ...more })).tasks;
  const settle = (task: Claimed, settlement: Op<"settle">["settlement"]) =>
    ask({ verb: "settle", ...ref(task), settlement, spent: 1 });
  const hold = { kind: "hold", error: ERROR, delay: 1_000 } as const;
  const add = (fields: Partial<Op<"add">["tasks"][number]>) =>
    ask({ verb: "add", tasks: Array.from({ length: 6 }, () => newTask({ queue, ...fields })) });

  await add({ groupKey: "early" });
  const [early] = await claim(1);
  await settle(early!, hold);
  await ask({
    verb: "declare",
    queue,
    policy: {
      maxConcurrency: 50,
      rateLimit: [tokens, { max: 90, ...hour, unit: null }],
      groups: { concurrency: 3, rateLimit: [tokens], fair: true, weight: { a: 2 }, sticky: true },
    },
  });
  for (const groupKey of ["a", "b", "c"]) await add({ groupKey, cost: 2 });
  await add({ ttl: 100 });
  await add({ urgent: true });
  const [first, second, third, ...others] = await claim(12);
  await settle(first!, { kind: "fail", error: ERROR, delay: 0 });
  await settle(second!, hold);
  await settle(third!, { kind: "fail", error: ERROR, delay: 500 });
  const { session: again } = await ask({ verb: "rejoin", session, fences: others.map(({ fence }) => fence) });
  await ask({ verb: "list", queue, state: "ready", limit: 2 });
  await ask({ verb: "stats", queue });
  await ask({ verb: "claim", queues: [queue], max: 1, worker: "t" });
  for (const { id } of await add({ groupKey: "d" })) {
    await ask({ verb: "signal", id, name: "go", value: null });
    await ask({ verb: "cancel", id });
  }
  pass(2_000);
  await ask({ verb: "housekeep" });
  await claim(100, { session: again });
  await ask({ verb: "declare", queue, policy: { window: { hours: "22:00-06:00", tz: "UTC" } } });
  await claim(100, { session: again });
  pass(43_200_000);
  await claim(100, { session: again });
  await ask({ verb: "housekeep" });
  await ask({ verb: "purge", queue, limit: 3 });
  await ask({ verb: "leave", session: again });
  await ask({ verb: "prune", limit: 10 });
  const { groups, rateLimit, maxConcurrency, window } = DEFAULT_POLICY;
  await ask({ verb: "declare", queue, policy: { groups, rateLimit, maxConcurrency, window } });
  await ask({ verb: "purge", queue, limit: 1_000 });
  await ask({ verb: "prune", limit: 10 });
  await ask({ verb: "drop", queue, limit: 1_000 });
}

/** What handlers leave behind, signals they wait for, and results that are judged. */
async function verdicts(ask: Ask): Promise<void> {
  const queue = "judged";
  await ask({ verb: "declare", queue, policy: { verified: true, maxAttempts: 9 } });
  const add = (fields: Partial<Op<"add">["tasks"][number]> = {}) =>
    ask({ verb: "add", tasks: Array.from({ length: 4 }, () => newTask({ queue, ...fields })) });
  const claim = async (from = queue) =>
    (await ask({ verb: "claim", queues: [from], max: 100, worker: "w" })).tasks;
  const settle = (task: Claimed, settlement: Op<"settle">["settlement"]) =>
    ask({ verb: "settle", ...ref(task), settlement });
  await add({ groupKey: "g" });
  const added = await add({ ttl: 86_400_000 });
  const [parked, stepped, ...others] = await claim();
  await ask({ verb: "step", ...ref(stepped!), name: "s", value: "1" });
  await ask({ verb: "steps", id: stepped!.id });
  await settle(parked!, { kind: "park", signal: "go", timeout: 1_000 });
  await ask({ verb: "signal", id: parked!.id, name: "go", value: "1" });
  for (const task of [stepped!, ...others])
    await settle(task, { kind: "done", result: "1", adds: [newTask()] });
  await ask({ verb: "verifying", ...ref(stepped!) });
  await ask({ verb: "list", queue, state: "verifying", limit: 5 });
  const asking = await claim(verificationQueue(queue));
  for (const [i, task] of asking.entries()) {
    const of = JSON.parse(task.data as string) as Claimed;
    if (i === 0) await settle(task, { kind: "reject", error: ERROR });
    else if (i % 2) await settle(task, { kind: "verdict", of, accepted: true });
    else await settle(task, { kind: "verdict", of, accepted: false, feedback: "no", delay: 0 });
  }
  const [again, ...rest] = await claim();
  for (const task of [again, ...rest]) if (task) await settle(task, { kind: "done", result: "2" });
  for (const { id } of added) await ask({ verb: "cancel", id });
  await ask({ verb: "discard", queue: verificationQueue(queue), filter: {} });
  await ask({ verb: "purge", queue: verificationQueue(queue), limit: 100 });
  await ask({ verb: "purge", queue, limit: 100 });
  await ask({ verb: "drop", queue, limit: 100 });
}

/** What a worker failed is kept from it as long as there is another one, and then no longer. */
async function elsewhere(ask: Ask, pass: (ms: number) => void): Promise<void> {
  const queue = "kept";
  await ask({ verb: "declare", queue, policy: { elsewhere: 1_000, maxAttempts: 9 } });
  const join = (id: string) =>
    ask({ verb: "join", worker: { ...worker(id), queues: [queue] }, lease: 86_400_000 });
  const [{ session }, other] = [await join("w"), await join("other")];
  await ask({ verb: "add", tasks: Array.from({ length: 6 }, () => newTask({ queue })) });
  const { tasks } = await ask({ verb: "claim", queues: [queue], max: 5, worker: "w", session });
  for (const task of tasks) {
    const settlement = { kind: "fail", error: ERROR, delay: 0 } as const;
    await ask({ verb: "settle", ...ref(task), settlement });
  }
  await ask({ verb: "claim", queues: [queue], max: 5, worker: "w", session });
  await ask({ verb: "reconcile", session, fences: [] });
  await ask({ verb: "retire", session });
  pass(1_500);
  await ask({ verb: "housekeep" });
  for (const each of [session, other.session]) await ask({ verb: "leave", session: each, lost: true });
  await ask({ verb: "drop", queue, limit: 100 });
}

/** More than are asked one by one, some of them with limits. */
async function manyQueues(ask: Ask): Promise<void> {
  const queues = Array.from({ length: 12 }, (_, i) => `many/${i}`);
  for (const queue of queues.slice(8)) {
    await ask({ verb: "declare", queue, policy: { maxConcurrency: 5, groups: { concurrency: 2 } } });
  }
  await ask({ verb: "add", tasks: queues.map((queue) => newTask({ queue, groupKey: "g" })) });
  const { tasks } = await ask({ verb: "claim", queues, max: 50, worker: "w", share: 1 });
  for (const task of tasks) {
    await ask({
      verb: "settle",
      ...ref(task),
      settlement: { kind: "hold", error: ERROR, delay: 60_000 },
    });
    await ask({ verb: "unhold", queue: task.queue, groupKey: "g" });
  }
  await ask({ verb: "claim", queues, max: 50, worker: "w" });
  for (const queue of queues) await ask({ verb: "drop", queue, limit: 100 });
}

/** Tasks wherever they can be: each gets a signal there, is cancelled, and is purged with others. */
async function everyPlace(ask: Ask): Promise<void> {
  const queue = "places";
  const groups = { ...DEFAULT_POLICY.groups, concurrency: 2, sticky: true };
  await ask({ verb: "declare", queue, policy: { verified: true, elsewhere: 86_400_000, groups } });
  const join = async (id: string) =>
    (await ask({ verb: "join", worker: { ...worker(id), queues: [queue] }, lease: 86_400_000 })).session;
  const [session] = [await join("w"), await join("other")];
  const add = (fields: Partial<Op<"add">["tasks"][number]>) =>
    ask({
      verb: "add",
      tasks: Array.from({ length: 6 }, () => newTask({ queue, ttl: 86_400_000, ...fields })),
    });
  const settleAll = async (settlement: Op<"settle">["settlement"]) => {
    const { tasks } = await ask({ verb: "claim", queues: [queue], max: 100, worker: "w", session });
    for (const task of tasks) await ask({ verb: "settle", ...ref(task), settlement });
    return tasks;
  };
  const touch = async (tasks: { id: string }[]) => {
    for (const { id } of tasks.slice(0, 2)) {
      await ask({ verb: "signal", id, name: "go", value: null });
      await ask({ verb: "cancel", id });
    }
  };
  // With results that wait for a verdict; and the next of their group are their worker's own.
  const grouped = await add({ groupKey: "g" });
  await touch(await settleAll({ kind: "done", result: "1" }));
  await touch(grouped.slice(2));
  // Kept from the worker that failed them, by themselves and in a group.
  const failed = await add({});
  await add({ groupKey: "h" });
  await settleAll({ kind: "fail", error: ERROR, delay: 0 });
  await touch(failed);
  // Behind their group, at a later time, and in line.
  await touch((await add({ groupKey: "i" })).slice(4));
  await touch(await add({ delay: 86_400_000 }));
  await touch(await add({}));
  // Fewer of a group may be in line from here on, and then none.
  await ask({ verb: "declare", queue, policy: { groups: { ...groups, concurrency: 1 } } });
  await ask({ verb: "housekeep" });
  await settleAll({ kind: "hold", error: ERROR, delay: 60_000 });
  await ask({ verb: "purge", queue, limit: 100 });
  for (const name of [queue, verificationQueue(queue)]) await ask({ verb: "drop", queue: name, limit: 100 });
}

function ref({ id, fence }: Claimed): Claimed {
  return { id, fence };
}
