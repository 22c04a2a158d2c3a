import type { TaskEntry } from "../../../core/record.ts";
import { type DepthByState, NO_DEPTH, rankOf } from "../../../core/task.ts";
import { NEVER } from "../line/line.ts";
import { numbers } from "../statements/text.ts";
import { bodyCells, insertRows, safeText } from "./rows.ts";
import { placeIn, type Target, type TargetQueue } from "./target.ts";

interface Arrival {
  record: TaskEntry;
  seq: number;
  createdAt: number;
  pos: number;
  rank: number;
  queue: TargetQueue;
}

/** After the runs and their parts: a task that is one is special. */
export async function importTasks(target: Target, records: readonly TaskEntry[]): Promise<void> {
  if (records.length === 0) return;
  const arrivals = records.map((record): Arrival => {
    const { seq, createdAt } = placeIn(target, record.id);
    const queue = target.queues.get(record.queue)!;
    return { record, seq, createdAt, pos: record.pos ?? seq, rank: rankOf(record), queue };
  });
  const inState = (...states: TaskEntry["state"][]): Arrival[] =>
    arrivals.filter(({ record }) => states.includes(record.state));
  await insertTasks(target, arrivals);
  await insertSteps(target, arrivals);
  await insertAttempts(target, arrivals);
  await insertReady(target, inState("ready"));
  await insertScheduled(target, inState("scheduled", "parked"));
  await insertWaiting(target, inState("waiting"));
  await insertVerifying(target, inState("verifying"));
  await insertEnded(target, inState("done", "cancelled", "expired"));
  await insertDead(target, inState("dead"));
  await insertTtl(target, inState("ready", "scheduled", "parked", "waiting"));
  await holdLanes(target, arrivals);
  await count(target, arrivals);
}

function insertTasks({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  return insertRows(
    link,
    "task",
    {
      ...{ seq: "int8", created_at: "int8", pos: "int8", expires_at: "int8", queue: "int4" },
      ...{ max_attempts: "int4", priority: "int2", urgent: "bool", cost: "int8", group_key: "text" },
      ...{ idempotency_key: "text", content_type: "text", headers: "text", data: "text", bytes: "bytea" },
    },
    arrivals.map(({ record, seq, createdAt, queue }) => {
      const [data, bytes] = bodyCells(record.data);
      return {
        ...{ seq, created_at: createdAt, pos: record.pos ?? null, expires_at: record.expiresAt ?? null },
        ...{ queue: queue.id, max_attempts: record.maxAttempts ?? null, priority: record.priority ?? 0 },
        ...{ urgent: record.urgent ?? null, cost: record.cost ?? null, group_key: record.groupKey ?? null },
        ...{ idempotency_key: record.idempotencyKey ?? null, content_type: record.contentType ?? null },
        ...{ headers: record.headers ? JSON.stringify(record.headers).toWellFormed() : null, data, bytes },
      };
    }),
  );
}

function insertSteps({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  return insertRows(
    ...([link, "step", { task: "int8", kind: "text", name: "text", value: "text", bytes: "bytea" }] as const),
    arrivals.flatMap(({ record: { steps = [], feedback }, seq: task }) => [
      ...steps.map(({ kind, name, value: body }) => {
        const [value, bytes] = bodyCells(body);
        return { task, kind: kind, name: safeText(name), value, bytes };
      }),
      ...(feedback === undefined
        ? []
        : [{ task, kind: "feedback", name: "", value: safeText(feedback), bytes: null }]),
    ]),
  );
}

/** But for successes, which are in the row of the task's end. */
function insertAttempts({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  return insertRows(
    link,
    "attempt",
    {
      ...{ task: "int8", fence: "int8", started_at: "int8", ended_at: "int8", attempt: "int2" },
      ...{ worker: "text", outcome: "text", name: "text", message: "text", stack: "text" },
      fingerprint: "text",
    },
    arrivals.flatMap(({ record: { attempts = [] }, seq: task }) =>
      attempts
        .filter(({ outcome }) => outcome !== "done")
        .map(({ fence, startedAt, endedAt, attempt, worker, outcome, error }) => ({
          ...{ task, fence, started_at: startedAt, ended_at: endedAt, attempt, worker, outcome },
          name: error && safeText(error.name),
          message: error && safeText(error.message),
          stack: error?.stack == null ? null : safeText(error.stack),
          fingerprint: error && safeText(error.fingerprint),
        })),
    ),
  );
}

const IN_LINE = {
  ...{ pos: "int8", task: "int8", queue: "int4", rank: "int2", failures: "int2", special: "bool" },
  group_key: "text",
};
const KEPT = { ...IN_LINE, until: "int8", avoid: "text" };
const OF_RUNS = `SELECT task FROM dibs.run_part WHERE task = ANY ($1::int8[])`;

async function insertReady({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  if (arrivals.length === 0) return;
  const parts = await link.all<{ task: number }>(OF_RUNS, numbers(arrivals.map(({ seq }) => seq)));
  const ofRun = new Set(parts.map(({ task }) => task));
  const rows = arrivals.map(({ record, seq: task, pos, rank, queue }) => {
    const { groupKey, idempotencyKey, steps, feedback, failures = 0, elsewhere } = record;
    const has = [groupKey, idempotencyKey, steps, feedback].some((value) => value !== undefined);
    return {
      ...{ pos: record.place ?? pos, task, queue: queue.id, rank, failures, special: has || ofRun.has(task) },
      group_key: queue.limited ? (groupKey ?? null) : null,
      ...{ until: elsewhere?.until ?? null, avoid: elsewhere ? JSON.stringify(elsewhere.avoid) : null },
    };
  });
  await insertRows(
    ...([link, "ready", IN_LINE] as const),
    rows.filter(({ until }) => until === null),
  );
  await insertRows(
    ...([link, "kept", KEPT] as const),
    rows.filter(({ until }) => until !== null),
  );
}

function insertScheduled({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  return insertRows(
    link,
    "scheduled",
    {
      ...{ pos: "int8", task: "int8", due: "int8", queue: "int4", failures: "int2", holds_group: "bool" },
      signal: "text",
    },
    arrivals.map(({ record, seq: task, pos, queue }) => ({
      ...{ pos, task, due: record.dueAt ?? NEVER, queue: queue.id, failures: record.failures ?? 0 },
      holds_group: record.holdsGroup ?? false,
      signal: record.waitsFor === undefined ? null : safeText(record.waitsFor),
    })),
  );
}

function insertWaiting({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  return insertRows(
    link,
    "waiting",
    { pos: "int8", task: "int8", queue: "int4", rank: "int2", group_key: "text", failures: "int2" },
    arrivals.map(({ record, seq: task, pos, rank, queue }) => ({
      ...{ pos, task, queue: queue.id, rank, group_key: record.groupKey!, failures: record.failures ?? 0 },
    })),
  );
}

async function insertVerifying(target: Target, arrivals: readonly Arrival[]): Promise<void> {
  await insertRows(
    target.link,
    "verifying",
    {
      ...{ task: "int8", asked: "int8", fence: "int8", started_at: "int8", queue: "int4", failures: "int2" },
      ...{ worker: "text", adds: "text", each: "bool", next: "text", result: "text", result_bytes: "bytea" },
    },
    arrivals.map(({ record, seq: task, queue }) => {
      const { fence, startedAt, worker, adds, each, next, asked, result: body } = record.verifying!;
      const [result, bytes] = bodyCells(body);
      return {
        ...{ task, asked: asked === undefined ? 0 : placeIn(target, asked).seq, fence },
        ...{ started_at: startedAt, queue: queue.id, failures: record.failures ?? 0, worker },
        ...{
          adds: adds?.toWellFormed() ?? null,
          each: each ?? false,
          next: next ? JSON.stringify(next) : null,
          result,
          result_bytes: bytes,
        },
      };
    }),
  );
  const aside = arrivals.filter(({ record }) => record.groupKey !== undefined && !record.holdsGroup);
  const rows = aside.map(({ seq: task }) => ({ task }));
  await insertRows(target.link, "aside", { task: "int8" }, rows);
}

function insertEnded({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  return insertRows(
    link,
    "ended",
    {
      ...{ task: "int8", ended_at: "int8", started_at: "int8", fence: "int8", queue: "int4" },
      ...{ attempt: "int2", state: "text", worker: "text", result: "text", result_bytes: "bytea" },
    },
    arrivals.map(({ record, seq: task, queue }) => {
      const last = record.attempts?.at(-1);
      const done = last?.outcome === "done" ? last : undefined;
      const [result, bytes] = bodyCells(record.result);
      return {
        ...{
          task,
          ended_at: record.endedAt!,
          started_at: done?.startedAt ?? null,
          fence: done?.fence ?? null,
        },
        ...{ queue: queue.id, attempt: done?.attempt ?? null, state: record.state },
        ...{ worker: done?.worker ?? null, result, result_bytes: bytes },
      };
    }),
  );
}

const COUNT_DEAD = `
  UPDATE dibs.run SET dead = dead + part.count
  FROM (SELECT run, count(*) FROM dibs.run_part WHERE task = ANY ($1::int8[]) GROUP BY run) AS part
  WHERE run.id = part.run`;

async function insertDead({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  if (arrivals.length === 0) return;
  await insertRows(
    link,
    "dead",
    { task: "int8", died_at: "int8", fence: "int8", queue: "int4", worker: "text", fingerprint: "text" },
    arrivals.map(({ record, seq: task, queue }) => {
      const { fence, worker, error } = record.attempts!.at(-1)!;
      const fingerprint = safeText(error!.fingerprint);
      return { task, died_at: record.endedAt!, fence, queue: queue.id, worker, fingerprint };
    }),
  );
  await link.all(COUNT_DEAD, numbers(arrivals.map(({ seq }) => seq)));
}

function insertTtl({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  return insertRows(
    ...([link, "ttl", { expires_at: "int8", task: "int8" }] as const),
    arrivals.flatMap(({ record: { expiresAt }, seq: task }) =>
      expiresAt === undefined ? [] : [{ expires_at: expiresAt, task }],
    ),
  );
}

/** The others of their groups wait for them. */
function holdLanes({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  const holding = arrivals.filter(
    ({ record }) => record.groupKey !== undefined && (record.state === "ready" || record.holdsGroup),
  );
  const lanes = Map.groupBy(holding, ({ queue, record }) => `${queue.id} ${record.groupKey}`);
  return insertRows(
    ...([link, "lane", { queue: "int4", group_key: "text", holders: "int4" }] as const),
    [...lanes.values()].map((some) => ({
      ...{ queue: some[0]!.queue.id, group_key: some[0]!.record.groupKey!, holders: some.length },
    })),
    `ON CONFLICT (queue, group_key) DO UPDATE SET holders = lane.holders + excluded.holders`,
  );
}

const STATES = Object.keys(NO_DEPTH) as (keyof DepthByState)[];

function count({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  const rows = [...Map.groupBy(arrivals, ({ queue }) => queue)].map(([{ id }, some]) => {
    const depth = { ...NO_DEPTH };
    for (const { record } of some) depth[record.state]++;
    return { queue: id, ...depth };
  });
  return insertRows(
    link,
    "depth",
    {
      queue: "int4",
      ...(Object.fromEntries(STATES.map((state) => [state, "int8"])) as Record<keyof DepthByState, string>),
    },
    rows,
    `ON CONFLICT (queue) DO UPDATE SET ${STATES.map((state) => `${state} = depth.${state} + excluded.${state}`).join(", ")}`,
  );
}
