import { fitting, ROW_BYTES } from "../../../core/answer/answer-size.ts";
import type { Paged } from "../../../core/answer/page.ts";
import type { WorkerInfo, WorkerRecord } from "../../../core/task/task.ts";
import { nextOf, numberAfter } from "../../../engine/cursor.ts";
import type { Notice } from "../../../engine/hint.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { releaseSticky, renumberSticky } from "../line/enter-line.ts";
import { type ClaimRow, heldFrom, selectClaims } from "../line/held.ts";
import { rowsBy } from "../statements/look-up.ts";
import { newest } from "../statements/newest.ts";
import { numbers } from "../statements/text.ts";
import { sessionGone } from "../../../core/task/lease.ts";
import { settleAs } from "./settle.ts";
import { endOverdue, forgetSession, expireClaim, stickyQueues, stopServing } from "../line/sweep.ts";
import type { Tx } from "../transaction/tx.ts";

/** Verbs of workers: from `join` and `heartbeat` to `leave`, and the list of workers. */

const INSERT_SESSION = `
  INSERT INTO dibs.session (id, worker, info, lease, joined_at, heartbeat_at, mixed)
  VALUES ($1, $2, $3, $4, $5, $6, false)`;
const INSERT_SERVING = `
  INSERT INTO dibs.serving (queue, session) SELECT queue, $2 FROM unnest($1::text[]) AS queue ON CONFLICT DO NOTHING`;

export async function join(tx: Tx, { worker, lease }: Verbs["join"]["in"]): Promise<{ session: number }> {
  const [session] = await tx.numbers("session", 1);
  tx.send(INSERT_SESSION, session!, worker.id, JSON.stringify(worker), lease, tx.now, tx.now);
  tx.send(INSERT_SERVING, worker.queues, session!);
  tx.floors.lowerTime("session", tx.now + lease);
  tx.batch.workers.clear();
  tx.batch.noteDue(tx.now + lease);
  tx.events.announce({ type: "worker.joined", at: tx.now, worker: worker.id });
  return { session: session! };
}

interface BeatingSession {
  id: number;
  mixed: boolean;
  lease: number;
  overdue_at: number | null;
}

interface NoticeRow {
  n: number;
  session: number;
  kind: "lost" | "timeout" | "cancel";
  task: number;
  created_at: number;
  fence: number;
}

// Locked in one order everywhere, so that two transactions do not wait for each other. FOR NO KEY UPDATE does not
// wait for a claim that only keeps the session from ending: its commit may take long, and heartbeats must not wait.
const LOCK_SESSIONS = `
  SELECT session.id, mixed, lease, overdue_at FROM unnest($1::int8[]) AS beating (id)
  JOIN dibs.session ON ${newest("session", "beating.id")} ORDER BY session.id FOR NO KEY UPDATE OF session NOWAIT`;
const BEAT = `
  UPDATE dibs.session SET heartbeat_at = $2, n = session.n + 1 FROM unnest($1::int8[]) AS beating (id)
  WHERE ${newest("session", "beating.id")}`;
// Scans all claims. Only for a session with claims whose lease is longer than its own.
const SET_MIXED = `
  UPDATE dibs.session SET n = n + 1, mixed = EXISTS (
    SELECT 1 FROM dibs.claim WHERE claim.session = session.id AND claim.lease > session.lease)
  WHERE ${newest("session", "$1")}`;
const FETCH_NOTICES = `
  DELETE FROM dibs.notice WHERE session = ANY ($1::int8[]) RETURNING n, session, kind, task, created_at, fence`;
const SET_OVERDUE = `UPDATE dibs.session SET overdue_at = $2, n = n + 1 WHERE ${newest("session", "$1")}`;

export async function heartbeat(
  tx: Tx,
  { sessions }: Verbs["heartbeat"]["in"],
): Promise<{ notices: Notice[] }> {
  const live = await tx.lock<BeatingSession>(LOCK_SESSIONS, [sessions]);
  const notices = await fetchNotices(tx, sessions);
  // All heartbeats first, so that every session counts as live when overdue tasks of another one are retried
  // elsewhere.
  if (live.length > 0) {
    tx.send(
      BEAT,
      live.map(({ id }) => id),
      tx.now,
    );
    // Later than before, unless the clock was set back.
    tx.floors.lowerTime("session", tx.now + Math.min(...live.map(({ lease }) => lease)));
  }
  for (const { id, mixed } of live) if (mixed && (await isQuiet(tx, id))) tx.send(SET_MIXED, id);
  tx.batch.workers.clear();
  for (const session of sessions) {
    if (!live.some(({ id }) => id === session)) notices.push({ session, kind: "gone" });
  }
  const byId = new Map(live.map((session) => [session.id, session]));
  for (const id of sessions) {
    const session = byId.get(id);
    if (session) notices.push(...(await overdueOf(tx, session)));
  }
  return { notices };
}

async function fetchNotices(tx: Tx, sessions: number[]): Promise<Notice[]> {
  const rows = await tx.take<NoticeRow>(FETCH_NOTICES, sessions);
  return rows
    .sort((a, b) => a.n - b.n)
    .map(({ session, kind, task, created_at: createdAt, fence }) => ({
      session,
      kind,
      id: tx.id(createdAt, task),
      fence,
    }));
}

const TAKE_SESSION = `SELECT 1 FROM dibs.session WHERE ${newest("session", "$1")} FOR UPDATE SKIP LOCKED`;

/**
 * Locks the session until the commit; false if a claim of it is in progress. A query of its claims would miss that one:
 * then the next heartbeat checks.
 */
async function isQuiet(tx: Tx, session: number): Promise<boolean> {
  return (await tx.get(TAKE_SESSION, session)) !== undefined;
}

/** Ends the claims that passed their timeout. */
async function overdueOf(tx: Tx, session: BeatingSession): Promise<Notice[]> {
  const { id } = session;
  if (session.overdue_at === null || session.overdue_at > tx.now) return [];
  if (!(await isQuiet(tx, id))) return [];
  const { ended, next } = await endOverdue(tx, id);
  session.overdue_at = next;
  tx.send(SET_OVERDUE, id, next);
  return ended.map(({ createdAt, seq, fence }) => ({
    session: id,
    kind: "timeout",
    id: tx.id(createdAt, seq),
    fence,
  }));
}

const SESSION = `SELECT worker, info FROM dibs.session WHERE ${newest("session", "$1")} FOR UPDATE SKIP LOCKED`;
const TASKS_HELD = `SELECT task FROM dibs.claim WHERE session = $1`;
const HELD = selectClaims(`claim.session = $1 ORDER BY claim.task`, "FOR UPDATE OF claim NOWAIT");

/** Its claims, locked, after the runs of their tasks, which come first in the lock order. */
async function heldBy(tx: Tx, session: number): Promise<ClaimRow[]> {
  const tasks = await tx.all<{ task: number }>(TASKS_HELD, session);
  await tx.runs.hold(tasks.map(({ task }) => task));
  return tx.lock<ClaimRow>(HELD, [session]);
}

export async function reconcile(
  tx: Tx,
  { session, fences }: Verbs["reconcile"]["in"],
): Promise<{ released: number }> {
  const held = await heldBy(tx, session);
  const unknown = held.filter((row) => !fences.includes(row.fence));
  for (const row of unknown) await settleAs(tx, heldFrom(tx, row), { kind: "release", started: false });
  return { released: unknown.length };
}

const LEASE = `SELECT lease FROM dibs.session WHERE ${newest("session", "$1")} FOR UPDATE SKIP LOCKED`;
const RENUMBER = `UPDATE dibs.session SET id = $1, heartbeat_at = $3, n = n + 1 WHERE ${newest("session", "$2")}`;
const RENUMBER_SERVING = `UPDATE dibs.serving SET session = $1 WHERE session = $2`;
const RENUMBER_CLAIMS = `UPDATE dibs.claim SET session = $1 WHERE session = $2`;
const RENUMBER_NOTICES = `UPDATE dibs.notice SET session = $1 WHERE session = $2`;

export async function rejoin(
  tx: Tx,
  { session: old, fences }: Verbs["rejoin"]["in"],
): Promise<{ session: number; lease: number; lost: number[] }> {
  const row = await tx.lockOne<{ lease: number }>(LEASE, old);
  if (!row) throw sessionGone(old);
  const [session = 0] = await tx.numbers("session", 1);
  // Claims are locked in one order everywhere before they are changed.
  const held = new Set((await heldBy(tx, old)).map(({ fence }) => fence));
  tx.send(RENUMBER, session, old, tx.now);
  tx.floors.lowerTime("session", tx.now + row.lease);
  tx.send(RENUMBER_SERVING, session, old);
  tx.send(RENUMBER_CLAIMS, session, old);
  tx.send(RENUMBER_NOTICES, session, old);
  if (tx.queues.hasLimits) await renumberLanes(tx, session, old);
  tx.batch.workers.clear();
  await reconcile(tx, { session, fences });
  return { session, lease: row.lease, lost: fences.filter((fence) => !held.has(fence)) };
}

// Tasks may stick to it in a queue whose groups are no longer sticky, so that their lanes have no session.
const QUEUES_OF = `
  SELECT queue FROM dibs.lane WHERE session = $1
  UNION ALL SELECT queue FROM ${rowsBy("ready_sticky", { session: "$1::int8" }, { columns: "queue" })} AS ready_sticky`;
const RENUMBER_LANES = `UPDATE dibs.lane SET session = $1 WHERE session = $2`;

/**
 * Its groups and its sticky tasks follow it. Under the gates: a transaction that takes a task out of the line under a
 * gate finds it by its ctid (lane-line.ts), and would miss a row that was updated meanwhile.
 */
async function renumberLanes(tx: Tx, session: number, old: number): Promise<void> {
  tx.limits.reread();
  const queues = (await tx.all<{ queue: number }>(QUEUES_OF, old)).map(({ queue }) => queue);
  await tx.queues.load(queues);
  for (const queue of queues.flatMap((id) => tx.queues.ifAny(id) ?? [])) await tx.limits.hold(queue);
  tx.send(RENUMBER_LANES, session, old);
  renumberSticky(tx, old, session);
}

export async function retire(tx: Tx, { session: id }: Verbs["retire"]["in"]): Promise<null> {
  const session = await tx.lockOne<{ worker: string; info: string }>(SESSION, id);
  if (!session) return null;
  await holdStickyGates(tx, session.info);
  stopServing(tx, id, session.info);
  await releaseSticky(tx, id);
  return null;
}

/** Under the gates, so that no task becomes sticky to the session from now on. */
async function holdStickyGates(tx: Tx, info: string): Promise<void> {
  for (const queue of stickyQueues(tx, info)) await tx.limits.hold(queue);
}

export async function leave(
  tx: Tx,
  { session: id, lost = false }: Verbs["leave"]["in"],
): Promise<{ released: number }> {
  const session = await tx.lockOne<{ worker: string; info: string }>(SESSION, id);
  if (!session) return { released: 0 };
  await holdStickyGates(tx, session.info);
  // The session is deleted first: a worker that stops cannot take a task over.
  forgetSession(tx, id, session.info);
  const held = await heldBy(tx, id);
  for (const row of held) {
    if (lost) await expireClaim(tx, { ...heldFrom(tx, row), session: null });
    else await settleAs(tx, heldFrom(tx, row), { kind: "release", started: true });
  }
  await releaseSticky(tx, id);
  tx.events.announce({ type: lost ? "worker.lost" : "worker.left", at: tx.now, worker: session.worker });
  return { released: held.length };
}

interface WorkerRow {
  info: string;
  joined_at: number;
  heartbeat_at: number;
  claims: number;
}

/** Those with a heartbeat within their lease: all, or those that serve a queue. */
const LIVE = `FROM dibs.session WHERE heartbeat_at + lease > $1`;
const LIVE_OF_QUEUE = `
  ${LIVE} AND EXISTS (
    SELECT 1 FROM json_array_elements_text(info::json -> 'queues') AS served (queue) WHERE served.queue = $2)`;
const PAGE = `SELECT id, octet_length(info) AS size ${LIVE} AND id > $2 ORDER BY id LIMIT $3`;
const PAGE_OF_QUEUE = `SELECT id, octet_length(info) AS size ${LIVE_OF_QUEUE} AND id > $3 ORDER BY id LIMIT $4`;
const SHOWN = `
  WITH held AS MATERIALIZED (
    SELECT session, count(*) AS count FROM dibs.claim WHERE session = ANY ($1::int8[]) GROUP BY session)
  SELECT info, joined_at, heartbeat_at,
    coalesce((SELECT count FROM held WHERE held.session = session.id), 0)::int4 AS claims
  FROM dibs.session WHERE id = ANY ($1::int8[]) ORDER BY id`;

export async function workers(
  tx: Tx,
  { queue, after, limit }: Verbs["workers"]["in"],
): Promise<Paged<WorkerRecord>> {
  const start = numberAfter(after);
  const sizes = await (queue === undefined
    ? tx.all<{ id: number; size: number }>(PAGE, tx.now, start, limit + 1)
    : tx.all<{ id: number; size: number }>(PAGE_OF_QUEUE, tx.now, queue, start, limit + 1));
  const page = fitting(sizes.slice(0, limit), ({ size }) => ROW_BYTES + size);
  const rows = await tx.all<WorkerRow>(SHOWN, numbers(page.map(({ id }) => id)));
  const items = rows.map((row) => ({
    ...(JSON.parse(row.info) as WorkerInfo),
    joinedAt: row.joined_at,
    silentFor: tx.now - row.heartbeat_at,
    claims: row.claims,
  }));
  return { items, next: nextOf(sizes, page.length, ({ id }) => [id]) };
}

const COUNT_BY_QUEUE = `
  SELECT served.queue, count(DISTINCT session.id)::int4 AS count
  FROM dibs.session CROSS JOIN json_array_elements_text(info::json -> 'queues') AS served (queue)
  WHERE heartbeat_at + lease > $1 AND served.queue = ANY ($2::text[]) GROUP BY served.queue`;

export async function workersByQueue(tx: Tx, queues: readonly string[]): Promise<Map<string, number>> {
  const rows = await tx.all<{ queue: string; count: number }>(COUNT_BY_QUEUE, tx.now, [...queues]);
  return new Map(rows.map(({ queue, count }) => [queue, count]));
}
