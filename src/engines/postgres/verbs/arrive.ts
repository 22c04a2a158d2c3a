import {
  isEnd,
  rankOf,
  type TravellingAttempt,
  type TravellingResult,
  type TravellingTask,
} from "../../../core/task.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { contentTypeOf, headersOf } from "./add-columns.ts";
import { keyName, type Newcomer, takenKeys, takePlaces } from "./add.ts";
import type { Queue } from "../transaction/known-queues.ts";
import { enter, type Mover, NEVER, schedule, takeLane, watchTtl } from "../line/line.ts";
import { Overtaken } from "../connection/overtaken.ts";
import { keepStep } from "../flows/steps.ts";
import { numbers, toColumns, toText } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";
import { insertVerifying } from "../flows/verify.ts";

const ORIGINS = `SELECT id, task, created_at FROM dibs.origin WHERE id = ANY ($1::text[])`;

interface OriginRow {
  id: string;
  task: number;
  created_at: number;
}

/** One that is taken in, with its number. */
interface Arrival {
  task: TravellingTask;
  queue: Queue;
  seq: number;
  createdAt: number;
  expiresAt: number | null;
  /** Those of its ledger, in order. */
  fences: number[];
}

export async function arrive(tx: Tx, tasks: TravellingTask[]): Promise<Verbs["arrive"]["out"]> {
  const known = await ids(
    tx,
    tasks.map((task) => task.origin),
  );
  const news = tasks.filter((task) => !known.has(task.origin));
  const arrivals: Arrival[] = [];
  const taken = new Map<string, { task: number; created_at: number }>();
  for (const [name, row] of await takenKeys(tx, news.flatMap(keyOf))) taken.set(name, row);
  const numbersOfTasks = await tx.numbers("seq", news.length);
  const fences = await tx.numbers("fence", sum(news.map(({ ledger }) => ledger.length)));
  const origins: OriginRow[] = [];
  const keyed: Arrival[] = [];
  for (const task of news) {
    const [key] = keyOf(task);
    const holder = key && taken.get(keyName(key));
    if (holder && !isEnd(task.state)) {
      origins.push({ id: task.origin, task: holder.task, created_at: holder.created_at });
      continue;
    }
    const arrival: Arrival = {
      task,
      queue: await tx.queues.getOrMake(task.queue),
      seq: numbersOfTasks.shift()!,
      createdAt: tx.now - task.age,
      expiresAt: task.expiresIn === null ? null : tx.now + task.expiresIn,
      fences: fences.splice(0, task.ledger.length),
    };
    arrivals.push(arrival);
    origins.push({ id: task.origin, task: arrival.seq, created_at: arrival.createdAt });
    if (key && !holder) {
      keyed.push(arrival);
      taken.set(keyName(key), { task: arrival.seq, created_at: arrival.createdAt });
    }
  }
  await writeOrigins(tx, origins);
  await writeKeys(tx, keyed);
  writeTasks(tx, arrivals);
  writeLedgers(tx, arrivals);
  for (const { seq, task } of arrivals) {
    for (const { kind, name, value } of task.steps) keepStep(tx, seq, kind, name, value);
    if (task.feedback !== null) keepStep(tx, seq, "feedback", "", task.feedback);
  }
  writeEnds(tx, arrivals);
  await lineUp(
    tx,
    arrivals.filter(({ task }) => !isEnd(task.state)),
  );
  for (const { id, task, created_at: at } of origins) known.set(id, tx.id(at, task));
  const fresh = new Set(arrivals.map(({ task }) => task.origin));
  return {
    store: tx.salt,
    tasks: tasks.map(({ origin }) => ({ id: known.get(origin)!, existing: !fresh.has(origin) })),
  };
}

function keyOf({
  holdsKey,
  queue,
  idempotencyKey,
}: TravellingTask): { queue: string; idempotencyKey: string }[] {
  return holdsKey ? [{ queue, idempotencyKey: idempotencyKey! }] : [];
}

function sum(counts: number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}

async function ids(tx: Tx, origins: string[]): Promise<Map<string, string>> {
  if (origins.length === 0) return new Map();
  const rows = await tx.all<OriginRow>(ORIGINS, origins);
  return new Map(rows.map((row) => [row.id, tx.id(row.created_at, row.task)]));
}

export async function origins(tx: Tx, asked: string[]): Promise<(string | null)[]> {
  const known = await ids(tx, asked);
  return asked.map((id) => known.get(id) ?? null);
}

const INSERT_ORIGINS = `
  INSERT INTO dibs.origin (id, task, created_at)
  SELECT * FROM unnest($1::text[], $2::int8[], $3::int8[]) AS each (id, task, created_at) ORDER BY id COLLATE "C"
  ON CONFLICT DO NOTHING`;

async function writeOrigins(tx: Tx, rows: OriginRow[]): Promise<void> {
  if (rows.length === 0) return;
  const written = await tx.run(
    INSERT_ORIGINS,
    rows.map((row) => row.id),
    numbers(rows.map((row) => row.task)),
    numbers(rows.map((row) => row.created_at)),
  );
  // Somebody else who runs the same move has brought one of them since we looked.
  if (written < rows.length) throw new Overtaken();
}

// A key whose time has passed gives way.
const INSERT_KEYS = `
  INSERT INTO dibs.idempotency (queue, key, task, created_at, forget_at, state)
  SELECT * FROM unnest($2::int4[], $3::text[], $4::int8[], $5::int8[], $6::int8[], $7::text[])
    AS each (queue, key, task, created_at, forget_at, state)
  ORDER BY queue, key COLLATE "C"
  ON CONFLICT (queue, key) DO UPDATE
  SET task = excluded.task, created_at = excluded.created_at, forget_at = excluded.forget_at, state = excluded.state
  WHERE idempotency.forget_at <= $1`;

async function writeKeys(tx: Tx, keyed: Arrival[]): Promise<void> {
  if (keyed.length === 0) return;
  const written = await tx.run(
    INSERT_KEYS,
    tx.now,
    keyed.map(({ queue }) => queue.id),
    keyed.map(({ task }) => task.idempotencyKey!),
    keyed.map(({ seq }) => seq),
    keyed.map(({ createdAt }) => createdAt),
    keyed.map(({ task }) => (isEnd(task.state) ? tx.now + task.keyFor! : null)),
    keyed.map(({ task }) => (isEnd(task.state) ? task.state : null)),
  );
  // Somebody else's commit has taken one of them since we looked.
  if (written < keyed.length) throw new Overtaken();
}

const INSERT_TASKS = `
  INSERT INTO dibs.task (seq, created_at, expires_at, queue, max_attempts, priority, group_key, idempotency_key,
    content_type, headers, data, bytes, cost, urgent)
  SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int4[], $5::int4[], $6::int2[], $7::text[], $8::text[],
    $9::text[], $10::text[], $11::text[], $12::bytea[], $13::int8[], $14::bool[])`;

function writeTasks(tx: Tx, arrivals: Arrival[]): void {
  if (arrivals.length === 0) return;
  const bodies = arrivals.map(({ task }) => toColumns(task.data));
  tx.put(
    INSERT_TASKS,
    arrivals.map(({ seq }) => seq),
    arrivals.map(({ createdAt }) => createdAt),
    arrivals.map(({ expiresAt }) => expiresAt),
    arrivals.map(({ queue }) => queue.id),
    arrivals.map(({ task }) => task.maxAttempts),
    arrivals.map(({ task }) => task.priority),
    arrivals.map(({ task }) => task.groupKey),
    arrivals.map(({ task }) => task.idempotencyKey),
    arrivals.map(({ task }) => contentTypeOf(task)),
    arrivals.map(({ task }) => headersOf(task)),
    bodies.map(([text]) => text),
    bodies.map(([, bytes]) => bytes),
    arrivals.map(({ task }) => task.cost),
    arrivals.map(({ task }) => task.urgent || null),
  );
}

const INSERT_ATTEMPTS = `
  INSERT INTO dibs.attempt (task, fence, started_at, ended_at, attempt, worker, outcome, name, message, stack, fingerprint)
  SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int2[], $6::text[], $7::text[], $8::text[],
    $9::text[], $10::text[], $11::text[])`;

/** Under new fences, which later claims of this store will be above. A success is in the row of the task's end. */
function writeLedgers(tx: Tx, arrivals: Arrival[]): void {
  const rows = arrivals.flatMap(({ task, seq, fences }) =>
    task.ledger.map((row, index) => ({ ...row, seq, fence: fences[index]! })),
  );
  const failures = rows.filter((row) => row.outcome !== "done");
  if (failures.length > 0) writeAttempts(tx, failures);
}

function writeAttempts(tx: Tx, failures: (TravellingAttempt & { seq: number; fence: number })[]): void {
  const text = (value: string | null | undefined) => (value == null ? null : toText(value));
  tx.put(
    INSERT_ATTEMPTS,
    failures.map((row) => row.seq),
    failures.map((row) => row.fence),
    failures.map((row) => tx.now - row.startedAgo),
    failures.map((row) => tx.now - row.endedAgo),
    failures.map((row) => row.attempt),
    failures.map((row) => row.worker),
    failures.map((row) => row.outcome),
    failures.map((row) => text(row.error?.name)),
    failures.map((row) => text(row.error?.message)),
    failures.map((row) => text(row.error?.stack)),
    failures.map((row) => text(row.error?.fingerprint)),
  );
}

const INSERT_DEAD = `
  INSERT INTO dibs.dead (task, died_at, fence, queue, worker, fingerprint)
  SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int4[], $5::text[], $6::text[])`;
const INSERT_ENDED = `
  INSERT INTO dibs.ended (task, ended_at, started_at, fence, queue, attempt, state, worker, result, result_bytes)
  SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int4[], $6::int2[], $7::text[], $8::text[],
    $9::text[], $10::bytea[])`;

function writeEnds(tx: Tx, arrivals: Arrival[]): void {
  const all = arrivals.filter(({ task }) => isEnd(task.state));
  const dead = all.filter(({ task }) => task.state === "dead");
  const ended = all.filter(({ task }) => task.state !== "dead");
  const at = (each: Arrival[]) => each.map(({ task }) => tx.now - task.endedAgo!);
  const last = ({ task }: Arrival) => task.ledger.at(-1);
  for (const { queue, task } of all) tx.counters.count(queue, task.state, 1);
  if (dead.length > 0) {
    tx.put(
      INSERT_DEAD,
      dead.map(({ seq }) => seq),
      at(dead),
      dead.map(({ fences }) => fences.at(-1)!),
      dead.map(({ queue }) => queue.id),
      dead.map((each) => last(each)!.worker),
      dead.map((each) => toText(last(each)!.error!.fingerprint)),
    );
  }
  if (ended.length === 0) return;
  const success = (each: Arrival) => (last(each)?.outcome === "done" ? last(each) : undefined);
  const results = ended.map(({ task }) => toColumns(task.result));
  tx.put(
    INSERT_ENDED,
    ended.map(({ seq }) => seq),
    at(ended),
    ended.map((each) => (success(each) ? tx.now - success(each)!.startedAgo : null)),
    ended.map((each) => (success(each) ? each.fences.at(-1)! : null)),
    ended.map(({ queue }) => queue.id),
    ended.map((each) => success(each)?.attempt ?? null),
    ended.map(({ task }) => task.state),
    ended.map((each) => success(each)?.worker ?? null),
    results.map(([text]) => text),
    results.map(([, bytes]) => bytes),
  );
}

/** In order, those that follow each other and have not failed together. */
async function lineUp(tx: Tx, arrivals: Arrival[]): Promise<void> {
  let usual: Newcomer[] = [];
  for (const arrival of arrivals) {
    tx.counters.flow(arrival.queue).added++;
    const taskId = tx.id(arrival.createdAt, arrival.seq);
    tx.events.announce({ type: "task.added", at: tx.now, queue: arrival.queue.name, taskId });
    if (isUsual(arrival.task)) {
      usual.push(newcomer(tx, arrival));
      continue;
    }
    if (usual.length > 0) await takePlaces(tx, usual);
    usual = [];
    await comeIn(tx, arrival);
  }
  if (usual.length > 0) await takePlaces(tx, usual);
}

function isUsual({ failures, holdsGroup, waitsFor, pending }: TravellingTask): boolean {
  return failures === 0 && !holdsGroup && waitsFor === null && pending === null;
}

function newcomer(tx: Tx, { task, queue, seq, expiresAt }: Arrival): Newcomer {
  return {
    index: -1,
    rank: rankOf(task),
    cost: task.cost,
    seq,
    pos: seq,
    due: task.dueIn !== null && task.dueIn > 0 ? tx.now + task.dueIn : null,
    queue,
    groupKey: task.groupKey,
    key: task.idempotencyKey,
    expiresAt,
    stepped: isStepped(task),
  };
}

function isStepped({ steps, feedback }: TravellingTask): boolean {
  return steps.length > 0 || feedback !== null;
}

/** One that has failed before, or waits for something. */
async function comeIn(tx: Tx, { task, queue, seq, createdAt, expiresAt }: Arrival): Promise<void> {
  const mover = {
    seq,
    queue,
    createdAt,
    rank: rankOf(task),
    pos: seq,
    groupKey: task.groupKey,
    holdsGroup: false,
    expiresAt,
    maxAttempts: task.maxAttempts,
    cost: task.cost,
    key: task.idempotencyKey,
    failures: task.failures,
    stepped: isStepped(task),
  };
  if (task.pending) return askAgain(tx, mover, task.pending);
  watchTtl(tx, mover);
  const signal = task.waitsFor ?? undefined;
  // A parked one whose time has passed on its way is told so by the next sweep.
  const later = signal !== undefined || (task.dueIn !== null && task.dueIn > 0);
  // The head of its group waits for its next try as the head; where there is another here, it waits behind that.
  const isHead = later && task.holdsGroup && (await takeLane(tx, mover));
  if (!later || task.holdsGroup !== isHead) await enter(tx, mover);
  else schedule(tx, mover, task.dueIn === null ? NEVER : tx.now + task.dueIn, signal);
}

/** Whoever was asked for a verdict in the other store has no say here. */
async function askAgain(
  tx: Tx,
  mover: Mover,
  { worker, startedAgo, result, adds }: TravellingResult,
): Promise<void> {
  const [fence = 0] = await tx.numbers("fence", 1);
  const attempt = { fence, worker, startedAt: tx.now - startedAgo };
  if (mover.groupKey === null || (await takeLane(tx, mover)))
    return insertVerifying(tx, { ...mover, ...attempt }, result, adds);
  // Its group has another head here, so that it cannot be the one that the group waits for: it is to be done again.
  writeAttempts(tx, [
    {
      seq: mover.seq,
      fence,
      attempt: mover.failures + 1,
      worker,
      startedAgo,
      endedAgo: 0,
      outcome: "released",
      error: null,
    },
  ]);
  watchTtl(tx, mover);
  await enter(tx, mover);
}
