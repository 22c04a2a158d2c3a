import { attemptRows, type TaskEntry } from "../../../core/record/record.ts";
import { type DepthByState, NO_DEPTH, rankOf } from "../../../core/task/task.ts";
import { NEVER } from "../../../core/task/transition.ts";
import { numbers } from "../statements/text.ts";
import { enterLineAsImported } from "../line/enter-line.ts";
import { insertRows } from "../statements/insert-rows.ts";
import { bodyCells, safeText } from "./rows.ts";
import { placeIn, type Target, type TargetQueue } from "./target.ts";

/** A task that is written, with its numbers in this store. */
interface Arrival {
  record: TaskEntry;
  seq: number;
  createdAt: number;
  pos: number;
  rank: number;
  queue: TargetQueue;
}

/** Writes the tasks of an export, for import.ts. After the runs and their parts: a task that is a part is special. */
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
  await insertLines(target, arrivals);
  await insertReady(target, inState("ready"));
  await insertScheduled(target, inState("scheduled", "parked"));
  await insertWaiting(target, inState("waiting"));
  await insertVerifying(target, inState("verifying"));
  await insertEnded(target, inState("done", "cancelled", "expired"));
  await insertDead(target, inState("dead"));
  await insertTtl(target, inState("ready", "scheduled", "parked", "waiting"));
  await insertLanes(target, arrivals);
  await count(target, arrivals);
}

function insertTasks({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  return insertRows(
    link,
    "task",
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
    link,
    "step",
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

function insertAttempts({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  return insertRows(
    link,
    "attempt",
    arrivals.flatMap(({ record, seq: task }) =>
      attemptRows(record).map(({ fence, startedAt, endedAt, attempt, worker, outcome, error }) => ({
        ...{ task, fence, started_at: startedAt, ended_at: endedAt, attempt, worker, outcome },
        name: error && safeText(error.name),
        message: error && safeText(error.message),
        stack: error?.stack == null ? null : safeText(error.stack),
        fingerprint: error && safeText(error.fingerprint),
      })),
    ),
  );
}

function insertLines({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  return insertRows(
    link,
    "log",
    arrivals.flatMap(({ record: { log = [] }, seq: task }) =>
      log.map(({ fence, at, text }, index) => ({ task, n: index + 1, fence, at, text: safeText(text) })),
    ),
  );
}

const OF_FLOWS = `
  SELECT task FROM dibs.run_part WHERE task = ANY ($1::int8[])
  UNION ALL SELECT task FROM dibs.child WHERE task = ANY ($1::int8[])`;

async function insertReady({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  if (arrivals.length === 0) return;
  const parts = await link.all<{ task: number }>(OF_FLOWS, numbers(arrivals.map(({ seq }) => seq)));
  const ofFlow = new Set(parts.map(({ task }) => task));
  const inLine = ({ record, seq: task, pos, rank, queue }: Arrival) => {
    const { groupKey, idempotencyKey, steps, feedback, failures = 0 } = record;
    const has = [groupKey, idempotencyKey, steps, feedback].some((value) => value !== undefined);
    return {
      ...{ pos: record.linePos ?? pos, task, queue: queue.id, rank, failures },
      special: has || ofFlow.has(task),
      group_key: queue.limited ? (groupKey ?? null) : null,
    };
  };
  await enterLineAsImported(link, {
    ready: arrivals.filter(({ record }) => !record.elsewhere).map(inLine),
    elsewhere: arrivals.flatMap((arrival) => {
      const { elsewhere } = arrival.record;
      if (!elsewhere) return [];
      return { ...inLine(arrival), until: elsewhere.until, avoid: JSON.stringify(elsewhere.avoid) };
    }),
  });
}

function insertScheduled({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  return insertRows(
    link,
    "scheduled",
    arrivals.map(({ record, seq: task, pos, queue }) => ({
      ...{ pos, task, due: record.dueAt ?? NEVER, queue: queue.id, failures: record.failures ?? 0 },
      blocks_group: record.blocksGroup ?? false,
      signal: record.waitsFor === undefined ? null : safeText(record.waitsFor),
    })),
  );
}

function insertWaiting({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  return insertRows(
    link,
    "waiting",
    arrivals.map(({ record, seq: task, pos, rank, queue }) => ({
      ...{ pos, task, queue: queue.id, rank, group_key: record.groupKey!, failures: record.failures ?? 0 },
    })),
  );
}

async function insertVerifying(target: Target, arrivals: readonly Arrival[]): Promise<void> {
  await insertRows(
    target.link,
    "verifying",
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
  const aside = arrivals.filter(({ record }) => record.groupKey !== undefined && !record.blocksGroup);
  const rows = aside.map(({ seq: task }) => ({ task }));
  await insertRows(target.link, "stepped_aside", rows);
}

function insertEnded({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  return insertRows(
    link,
    "ended",
    arrivals.map(({ record, seq: task, queue }) => {
      const last = record.attempts?.at(-1);
      const done = record.state === "done" ? last : undefined;
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
    link,
    "ttl",
    arrivals.flatMap(({ record: { expiresAt }, seq: task }) =>
      expiresAt === undefined ? [] : [{ expires_at: expiresAt, task }],
    ),
  );
}

/** Heads of groups, and tasks that block theirs. */
function insertLanes({ link }: Target, arrivals: readonly Arrival[]): Promise<void> {
  const holding = arrivals.filter(
    ({ record }) => record.groupKey !== undefined && (record.state === "ready" || record.blocksGroup),
  );
  const lanes = Map.groupBy(holding, ({ queue, record }) => `${queue.id} ${record.groupKey}`);
  return insertRows(
    link,
    "lane",
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
    rows,
    `ON CONFLICT (queue) DO UPDATE SET ${STATES.map((state) => `${state} = depth.${state} + excluded.${state}`).join(", ")}`,
  );
}
