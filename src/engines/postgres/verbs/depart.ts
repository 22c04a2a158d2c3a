import { onItsWay, ontoItself } from "../../../core/errors.ts";
import {
  type Attempt,
  fromRank,
  type Headers,
  JSON_TYPE,
  type TravellingResult,
  type TravellingTask,
} from "../../../core/task.ts";
import { hasRuns } from "../../../core/run.ts";
import { asAges } from "../../../core/travel.ts";
import { decodeAdds } from "../../../core/verification.ts";
import { allAnswered } from "../statements/all-answered.ts";
import { ledgersOf, type PayloadRow, PAYLOADS } from "./inspect.ts";
import type { Queue } from "../transaction/known-queues.ts";
import { standBehindLeaving } from "../line/leaving-groups.ts";
import { NEVER } from "../line/line.ts";
import { deleteEach, lookUp, TASK_OF } from "../statements/look-up.ts";
import { type Found, findMany, type Line, stateOf } from "../line/place.ts";
import { hasRunsUnderWay } from "../flows/runs.ts";
import { leftBehindBy } from "../flows/steps.ts";
import { removeTogether, takeTogether } from "../line/take-together.ts";
import { fromColumns } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

const ASTRAY = `SELECT destination FROM dibs.leaving WHERE queue = $1 AND destination <> $2 LIMIT 1`;
const HELD = `SELECT task FROM dibs.leaving WHERE queue = $1 ORDER BY n LIMIT $2`;

/** What asks for a verdict on a result that is still here stays with it: the other store asks for its own. */
const NOT_ASKING = (table: string): string =>
  `NOT EXISTS (SELECT 1 FROM dibs.verifying WHERE verifying.asked = ${table}.task)`;

/** Takes the first rows of a state's table, and holds their tasks. What others have their hands on is passed over. */
function hold(table: Line | "scheduled", order: string): string {
  const [state, holds, due, signal] =
    table === "scheduled"
      ? ["CASE WHEN signal IS NULL THEN 'scheduled' ELSE 'parked' END", "taken.holds_group", "due", "signal"]
      : ["'ready'", "task.group_key IS NOT NULL", "NULL::int8", "NULL"];
  return `
  WITH taken AS (
    DELETE FROM dibs.${table} WHERE ctid = ANY (ARRAY (
      SELECT ctid FROM dibs.${table} WHERE queue = $1 AND ${NOT_ASKING(table)}
      ORDER BY ${order} LIMIT $3 FOR UPDATE SKIP LOCKED))
    RETURNING *)
  INSERT INTO dibs.leaving (task, due, signal, queue, destination, failures, holds_group, cancelled, state, group_key)
  SELECT task, ${due}, ${signal}, $1, $2, failures, ${holds}, false, ${state}, task.group_key
  FROM taken CROSS JOIN ${TASK_OF("taken")} ORDER BY ${order.replaceAll(/\w+/g, "taken.$&")}
  RETURNING state, group_key`;
}

/**
 * Those behind the heads of groups, by the part of a statement that names the groups. Only where the head is leaving too: were
 * it running here, they would overtake it.
 */
const holdWaiting = (groups: string): string => `
  WITH taken AS (
    DELETE FROM dibs.waiting WHERE ctid = ANY (ARRAY (
      SELECT waiting.ctid FROM (${groups}) AS heads
      JOIN dibs.waiting ON waiting.queue = $1 AND waiting.group_key = heads.group_key
      ORDER BY waiting.group_key, waiting.pos LIMIT $3 FOR UPDATE OF waiting))
    RETURNING task, failures, group_key, pos)
  INSERT INTO dibs.leaving (task, queue, destination, failures, holds_group, cancelled, state, group_key)
  SELECT task, $1, $2, failures, true, false, 'waiting', group_key FROM taken ORDER BY group_key, pos
  RETURNING state, group_key`;

const LEAVING_HEADS = `SELECT group_key FROM dibs.leaving WHERE queue = $1 AND holds_group`;
// Of groups whose rows are ours: others of them may have gone since.
const HOLD_WAITING = holdWaiting(`${LEAVING_HEADS} AND group_key = ANY ($4::text[]) GROUP BY group_key`);
// Also where there is no head, because none of the group may start yet.
const HOLD_WAITING_WITHIN_LIMITS = holdWaiting(
  `${LEAVING_HEADS} UNION SELECT group_key FROM dibs.lane WHERE queue = $1 AND holders = 0`,
);

// In this order: whoever is behind the head of a group leaves after it.
const HOLD = [
  // Before the others of the line, since they are older: they have failed.
  hold("kept", "rank, pos"),
  hold("own", "rank, pos"),
  hold("ready", "rank, pos"),
  hold("scheduled", "pos"),
  `
  WITH taken AS (
    DELETE FROM dibs.verifying WHERE ctid = ANY (ARRAY (
      SELECT ctid FROM dibs.verifying WHERE queue = $1 ORDER BY task LIMIT $3 FOR UPDATE SKIP LOCKED))
    RETURNING *)
  INSERT INTO dibs.leaving (task, queue, destination, failures, holds_group, cancelled, state, group_key, started_at,
    worker, adds, result, result_bytes)
  SELECT task, $1, $2, failures,
    task.group_key IS NOT NULL AND NOT EXISTS (SELECT 1 FROM dibs.aside WHERE aside.task = taken.task OFFSET 0), false, 'verifying',
    task.group_key, taken.started_at, worker, adds, result, result_bytes
  FROM taken CROSS JOIN ${TASK_OF("taken")} ORDER BY taken.task RETURNING state, group_key`,
  HOLD_WAITING,
  `
  WITH next AS (
    UPDATE dibs.dead SET leaving = true WHERE ctid = ANY (ARRAY (
      SELECT ctid FROM dibs.dead WHERE queue = $1 AND NOT leaving ORDER BY died_at, task LIMIT $3
      FOR UPDATE SKIP LOCKED))
    RETURNING task, died_at)
  INSERT INTO dibs.leaving (task, queue, destination, failures, holds_group, cancelled, state)
  SELECT task, $1, $2, 0, false, false, 'dead' FROM next ORDER BY died_at, task RETURNING state, group_key`,
] as const;
const DELETE_ASIDE = `DELETE FROM dibs.aside WHERE task = ANY ($1::int8[])`;
const UNWATCH = deleteEach(
  "ttl",
  `(SELECT seq, expires_at FROM dibs.task WHERE seq = ANY ($1::int8[]) OFFSET 0) AS task`,
  `ttl.expires_at = task.expires_at AND ttl.task = task.seq`,
);
const ENDED = `SELECT task FROM dibs.ended WHERE queue = $1 ORDER BY ended_at, task LIMIT $2`;

export async function depart(tx: Tx, name: string, to: number, limit: number): Promise<TravellingTask[]> {
  if (to === tx.salt) throw ontoItself();
  const queue = tx.queues.named(name);
  if (!queue) return [];
  if (await hasRunsUnderWay(tx, queue.id)) throw hasRuns(name);
  const astray = await tx.get<{ destination: number }>(ASTRAY, queue.id, to);
  if (astray) throw onItsWay(name, astray.destination, to);
  let count = (await held(tx, queue, limit)).length;
  const before = count;
  if (queue.limited) await tx.limits.hold(queue);
  for (const sql of HOLD) {
    if (count >= limit) break;
    tx.limits.flush();
    const rows = await holdNext(tx, queue, sql, to, limit - count);
    count += rows.length;
    if (queue.limited) for (const row of rows) await leaveGroup(tx, queue, row);
  }
  const leaving = await held(tx, queue, limit);
  if (count > before) for (const sql of [UNWATCH, DELETE_ASIDE]) tx.send(sql, leaving);
  const ended = await seqs(tx, ENDED, queue.id, limit - leaving.length);
  return travelling(tx, await findMany(tx, [...leaving, ...ended]));
}

interface LeavingRow {
  state: string;
  group_key: string | null;
}

async function holdNext(tx: Tx, queue: Queue, sql: string, to: number, limit: number): Promise<LeavingRow[]> {
  if (sql !== HOLD_WAITING) return tx.take(sql, queue.id, to, limit);
  if (queue.limited) return tx.take(HOLD_WAITING_WITHIN_LIMITS, queue.id, to, limit);
  const groups = await standBehindLeaving(tx, queue, limit);
  return groups.length === 0 ? [] : tx.take(HOLD_WAITING, queue.id, to, limit, groups);
}

/** Whoever comes to stand in the group meanwhile waits for all of them. */
async function leaveGroup(tx: Tx, queue: Queue, { state, group_key: key }: LeavingRow): Promise<void> {
  if (key === null) return;
  if (state === "ready") tx.limits.movedInLine(queue, key, -1);
  if (state !== "waiting") return;
  const lane = await tx.limits.lane(queue, key);
  lane.holders++;
  lane.changed = true;
}

function held(tx: Tx, queue: Queue, limit: number): Promise<number[]> {
  return seqs(tx, HELD, queue.id, limit);
}

async function seqs(tx: Tx, sql: string, queue: number, limit: number): Promise<number[]> {
  return (await tx.all<{ task: number }>(sql, queue, limit)).map((row) => row.task);
}

const KEYS = `
  SELECT task, forget_at FROM unnest($1::int4[], $2::text[], $3::int8[]) AS wanted (of, name, seq)
  CROSS JOIN ${lookUp(
    "idempotency",
    `idempotency.queue = wanted.of AND idempotency.key = wanted.name COLLATE "C" AND idempotency.task = wanted.seq`,
  )}
  WHERE forget_at IS NULL OR forget_at > $4`;

async function travelling(tx: Tx, tasks: Found[]): Promise<TravellingTask[]> {
  if (tasks.length === 0) return [];
  const all = tasks.map(({ seq }) => seq);
  const keyed = tasks.filter(({ key }) => key !== null);
  const results = tasks.filter(({ place }) => stateOf(place) === "verifying").map(({ seq }) => seq);
  const [ledgers, keys, left, pending, rows] = await allAnswered([
    ledgersOf(tx, all),
    tx.all<KeyRow>(
      KEYS,
      keyed.map(({ queue }) => queue.id),
      keyed.map(({ key }) => key!),
      keyed.map(({ seq }) => seq),
      tx.now,
    ),
    leftBehindBy(tx, all),
    pendingOf(tx, results),
    tx.all<PayloadRow>(PAYLOADS, all),
  ]);
  const payloads = new Map(rows.map((row) => [row.seq, row]));
  const held = new Map(keys.map((row) => [row.task, row]));
  return tasks.flatMap((task) => {
    const payload = payloads.get(task.seq);
    // Ended ones are not held: some may be removed between two statements.
    if (!payload) return [];
    return {
      ...describe(tx, task, payload, ledgers.get(task.seq) ?? [], held.get(task.seq)),
      ...(left.get(task.seq) ?? { steps: [], feedback: null }),
      pending: pending.get(task.seq) ?? null,
    };
  });
}

interface PendingRow {
  task: number;
  started_at: number;
  worker: string;
  adds: string | null;
  result: string | null;
  result_bytes: Uint8Array | null;
}

const PENDING = `
  SELECT task, started_at, worker, adds, result, result_bytes FROM dibs.leaving WHERE task = ANY ($1::int8[])`;

async function pendingOf(tx: Tx, seqs: number[]): Promise<Map<number, TravellingResult>> {
  if (seqs.length === 0) return new Map();
  const rows = await tx.all<PendingRow>(PENDING, seqs);
  return new Map(
    rows.map((row) => [
      row.task,
      {
        worker: row.worker,
        startedAgo: tx.now - row.started_at,
        result: fromColumns(row.result, row.result_bytes),
        adds: row.adds === null ? [] : decodeAdds(row.adds),
      },
    ]),
  );
}

interface KeyRow {
  task: number;
  forget_at: number | null;
}

function describe(
  tx: Tx,
  task: Found,
  payload: PayloadRow,
  ledger: Attempt[],
  key: KeyRow | undefined,
): Omit<TravellingTask, "steps" | "feedback" | "pending"> {
  const { now } = tx;
  const { place } = task;
  const state = stateOf(place) as TravellingTask["state"];
  const due = "due" in place && place.due !== NEVER ? place.due : null;
  return {
    origin: tx.id(task.createdAt, task.seq),
    queue: task.queue.name,
    state,
    data: fromColumns(payload.data, payload.bytes)!,
    contentType: payload.content_type ?? JSON_TYPE,
    headers: payload.headers === null ? {} : (JSON.parse(payload.headers) as Headers),
    ...fromRank(task.rank),
    groupKey: task.groupKey,
    holdsGroup: (state === "scheduled" || state === "parked") && task.holdsGroup,
    idempotencyKey: task.key,
    holdsKey: key !== undefined,
    keyFor: key && key.forget_at !== null ? key.forget_at - now : null,
    maxAttempts: task.maxAttempts,
    cost: task.cost,
    failures: task.failures,
    age: now - task.createdAt,
    dueIn: due === null ? null : due - now,
    expiresIn: task.expiresAt === null ? null : task.expiresAt - now,
    endedAgo: payload.ended_at === null ? null : now - payload.ended_at,
    result: fromColumns(payload.result, payload.result_bytes),
    waitsFor: "signal" in place ? place.signal : null,
    ledger: asAges(ledger, now),
    cancelRequested: place.state === "leaving" && place.cancelled,
  };
}

// Locked: from here to the commit nobody cancels one.
const LOCK = `
  SELECT task, cancelled FROM dibs.leaving WHERE task = ANY ($1::int8[]) ORDER BY task FOR UPDATE`;
export async function gone(
  tx: Tx,
  tasks: { id: string; cancelled: boolean }[],
): Promise<{ cancelled: string[] }> {
  const known = new Map(tasks.map(({ id, cancelled }) => [id, cancelled]));
  const wanted = [...known.keys()].flatMap((id) => tx.place(id)?.seq ?? []);
  const locked = await tx.all<{ task: number; cancelled: boolean }>(LOCK, wanted);
  const wishes = new Map(locked.map((row) => [row.task, row.cancelled]));
  const cancelled: string[] = [];
  const going = (await findMany(tx, wanted)).filter((task) => {
    const id = tx.id(task.createdAt, task.seq);
    const wish = wishes.get(task.seq);
    if (!known.has(id)) return false;
    if (wish === undefined) return isOver(task);
    if (wish && !known.get(id)) cancelled.push(id);
    return !wish || known.get(id);
  });
  const { taken } = await takeTogether(tx, going);
  await removeTogether(tx, taken);
  if (taken.length > 0) tx.hint.ended = true;
  return { cancelled };
}

/** Ended, and kept for a while: nobody else moves it. */
function isOver({ place }: Found): boolean {
  return place.state === "done" || place.state === "cancelled" || place.state === "expired";
}
