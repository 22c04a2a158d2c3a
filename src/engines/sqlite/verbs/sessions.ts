import { sessionGone } from "../../../core/task/lease.ts";
import { ROW_BYTES } from "../../../core/answer/answer-size.ts";
import type { Paged } from "../../../core/answer/page.ts";
import type { WorkerInfo, WorkerRecord } from "../../../core/task/task.ts";
import { nextOf, numberAfter } from "../../../engine/cursor.ts";
import type { Notice } from "../../../engine/hint.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { renumberSticky } from "../line/enter-line.ts";
import { type ClaimRow, heldFrom } from "../line/held.ts";
import { settleAs } from "./settle.ts";
import { disownAll, endOverdue, forgetSession, expireClaim, stopServing } from "../line/sweep.ts";
import { readPage } from "../statements/read-page.ts";
import { COUNTED } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** Verbs of workers: from `join` and `heartbeat` to `leave`, and the list of workers. */

const INSERT_SESSION = `
  INSERT INTO session (id, worker, info, lease, joined_at, heartbeat_at, mixed) VALUES (?, ?, ?, ?, ?, ?, 0)`;
const INSERT_SERVING = `INSERT INTO serving (queue, session) VALUES (?, ?) ON CONFLICT DO NOTHING`;

export function join(tx: Tx, { worker, lease }: Verbs["join"]["in"]): { session: number } {
  const session = ++tx.session;
  tx.run(INSERT_SESSION, session, worker.id, JSON.stringify(worker), lease, tx.now, tx.awake);
  for (const queue of worker.queues) tx.run(INSERT_SERVING, queue, session);
  tx.batch.workers.clear();
  tx.batch.noteDue(tx.now + lease);
  tx.announce({ type: "worker.joined", at: tx.now, worker: worker.id });
  return { session };
}

interface BeatingSession {
  lease: number;
  heartbeat_at: number;
  mixed: number;
  overdue_at: number | null;
}

interface NoticeRow {
  session: number;
  kind: "lost" | "timeout" | "cancel";
  task: number;
  created_at: number;
  fence: number;
}

const SESSION = `SELECT lease, heartbeat_at, mixed, overdue_at FROM session WHERE id = ?`;
const BEAT = `UPDATE session SET heartbeat_at = ?, mixed = ?, overdue_at = ? WHERE id = ?`;
const NOTICES = `SELECT n, session, kind, task, created_at, fence FROM notice WHERE session = ?`;
const DELETE_NOTICES = `DELETE FROM notice WHERE session = ?`;

export function heartbeat(tx: Tx, { sessions }: Verbs["heartbeat"]["in"]): { notices: Notice[] } {
  const notices = fetchNotices(tx, sessions);
  // All heartbeats first, so that every session counts as live when overdue tasks of another one are retried
  // elsewhere.
  const live = sessions.filter((id) => beatOne(tx, id));
  for (const id of sessions) if (!live.includes(id)) notices.push({ session: id, kind: "gone" });
  for (const id of live) notices.push(...overdueOf(tx, id));
  return { notices };
}

function fetchNotices(tx: Tx, sessions: number[]): Notice[] {
  const rows = [...new Set(sessions)].flatMap((id) => tx.all<NoticeRow & { n: number }>(NOTICES, id));
  if (rows.length > 0) for (const id of sessions) tx.run(DELETE_NOTICES, id);
  return rows
    .sort((a, b) => a.n - b.n)
    .map(({ session, kind, task, created_at: createdAt, fence }) => ({
      session,
      kind,
      id: tx.id(createdAt, task),
      fence,
    }));
}

/** Returns whether the session exists. */
function beatOne(tx: Tx, id: number): boolean {
  const session = tx.get<BeatingSession>(SESSION, id);
  if (!session) return false;
  const mixed = session.mixed === 1 && tx.get(LONGER, id, session.lease) ? 1 : 0;
  write(tx, id, session, { ...session, heartbeat_at: tx.awake, mixed });
  return true;
}

// Scans all claims. Only for a session with claims whose lease is longer than its own.
const LONGER = `SELECT 1 FROM claim WHERE session = ? AND lease > ? LIMIT 1`;

/** Ends the claims that passed their timeout. */
function overdueOf(tx: Tx, id: number): Notice[] {
  const session = tx.get<BeatingSession>(SESSION, id)!;
  if (session.overdue_at === null || session.overdue_at > tx.awake) return [];
  const { ended, next } = endOverdue(tx, id);
  write(tx, id, session, { ...session, overdue_at: next });
  return ended.map(({ createdAt, seq, fence }) => ({
    session: id,
    kind: "timeout",
    id: tx.id(createdAt, seq),
    fence,
  }));
}

function write(tx: Tx, id: number, from: BeatingSession, to: BeatingSession): void {
  tx.batch.workers.clear();
  const { heartbeat_at: heartbeatAt, mixed, overdue_at: overdueAt } = to;
  if (from.heartbeat_at === heartbeatAt && from.mixed === mixed && from.overdue_at === overdueAt) return;
  tx.run(BEAT, heartbeatAt, mixed, overdueAt, id);
}

const WORKER = `SELECT worker FROM session WHERE id = ?`;
const HELD = `SELECT * FROM claim WHERE session = ? ORDER BY task`;

export function reconcile(tx: Tx, { session, fences }: Verbs["reconcile"]["in"]): { released: number } {
  const unknown = tx.all<ClaimRow>(HELD, session).filter((row) => !fences.includes(row.fence));
  for (const row of unknown) settleAs(tx, heldFrom(tx, row), { kind: "release", started: false });
  return { released: unknown.length };
}

const LEASE = `SELECT lease, info FROM session WHERE id = ?`;
const RENUMBER = `UPDATE session SET id = ?, heartbeat_at = ? WHERE id = ?`;
const RENUMBER_SERVING = `UPDATE serving SET session = ? WHERE session = ?`;
const RENUMBER_CLAIMS = `UPDATE claim SET session = ? WHERE session = ?`;
const RENUMBER_NOTICES = `UPDATE notice SET session = ? WHERE session = ?`;
const RENUMBER_LANES = `
  UPDATE lane SET state = json_set(state, '$.session', ?)
  WHERE queue = ? AND json_extract(state, '$.session') = ?`;

export function rejoin(
  tx: Tx,
  { session: old, fences }: Verbs["rejoin"]["in"],
): { session: number; lease: number; lost: number[] } {
  const row = tx.get<{ lease: number; info: string }>(LEASE, old);
  if (!row) throw sessionGone(old);
  const session = ++tx.session;
  tx.run(RENUMBER, session, tx.awake, old);
  tx.run(RENUMBER_SERVING, session, old);
  tx.run(RENUMBER_CLAIMS, session, old);
  tx.run(RENUMBER_NOTICES, session, old);
  for (const name of (JSON.parse(row.info) as WorkerInfo).queues) {
    const queue = tx.queues.named(name);
    if (queue?.lanes !== COUNTED) continue;
    tx.run(RENUMBER_LANES, session, queue.id, old);
    renumberSticky(tx, queue, old, session);
  }
  tx.batch.workers.clear();
  const held = new Set(tx.all<ClaimRow>(HELD, session).map(({ fence }) => fence));
  reconcile(tx, { session, fences });
  return { session, lease: row.lease, lost: fences.filter((fence) => !held.has(fence)) };
}

export function retire(tx: Tx, { session: id }: Verbs["retire"]["in"]): null {
  if (tx.get(WORKER, id)) disownAll(tx, id, stopServing(tx, id));
  return null;
}

export function leave(tx: Tx, { session: id, lost = false }: Verbs["leave"]["in"]): { released: number } {
  const session = tx.get<{ worker: string }>(WORKER, id);
  if (!session) return { released: 0 };
  // The session is deleted first: a worker that stops cannot take a task over.
  const queues = forgetSession(tx, id);
  const held = tx.all<ClaimRow>(HELD, id);
  for (const row of held) {
    if (lost) expireClaim(tx, { ...heldFrom(tx, row), session: null });
    else settleAs(tx, heldFrom(tx, row), { kind: "release", started: true });
  }
  disownAll(tx, id, queues);
  tx.announce({ type: lost ? "worker.lost" : "worker.left", at: tx.now, worker: session.worker });
  return { released: held.length };
}

interface WorkerRow {
  id: number;
  info: string;
  joined_at: number;
  heartbeat_at: number;
}

/** Those with a heartbeat within their lease: all, or those that serve a queue. */
const LIVE = `FROM session WHERE heartbeat_at + lease > ?`;
const LIVE_OF_QUEUE = `${LIVE} AND EXISTS (SELECT 1 FROM json_each(info, '$.queues') WHERE value = ?)`;
const PAGE = `SELECT id ${LIVE} AND id > ? ORDER BY id LIMIT 0 + ?`;
const PAGE_OF_QUEUE = `SELECT id ${LIVE_OF_QUEUE} AND id > ? ORDER BY id LIMIT 0 + ?`;
const COUNT_OF_QUEUE = `SELECT count(*) AS count ${LIVE_OF_QUEUE}`;
const SHOWN = `SELECT id, info, joined_at, heartbeat_at FROM session WHERE id = ?`;
const HELD_BY_SESSION = `SELECT session, count(*) AS claims FROM claim WHERE session IS NOT NULL GROUP BY session`;

export function workers(tx: Tx, { queue, after, limit }: Verbs["workers"]["in"]): Paged<WorkerRecord> {
  const start = numberAfter(after);
  const ids =
    queue === undefined
      ? tx.all<{ id: number }>(PAGE, tx.awake, start, limit + 1)
      : tx.all<{ id: number }>(PAGE_OF_QUEUE, tx.awake, queue, start, limit + 1);
  const read = ({ id }: { id: number }): WorkerRow => tx.get<WorkerRow>(SHOWN, id)!;
  const rows = readPage(ids.slice(0, limit), read, ({ info }) => ROW_BYTES + info.length);
  const held = new Map(
    tx.all<{ session: number; claims: number }>(HELD_BY_SESSION).map((row) => [row.session, row.claims]),
  );
  const items = rows.map((row) => ({
    ...(JSON.parse(row.info) as WorkerInfo),
    joinedAt: row.joined_at,
    silentFor: tx.awake - row.heartbeat_at,
    claims: held.get(row.id) ?? 0,
  }));
  return { items, next: nextOf(ids, items.length, ({ id }) => [id]) };
}

const COUNT_BY_QUEUE = `
  SELECT served.value AS queue, count(DISTINCT session.id) AS count FROM session, json_each(info, '$.queues') AS served
  WHERE heartbeat_at + lease > ? GROUP BY served.value`;

export function workersByQueue(tx: Tx): Map<string, number> {
  const rows = tx.all<{ queue: string; count: number }>(COUNT_BY_QUEUE, tx.awake);
  return new Map(rows.map(({ queue, count }) => [queue, count]));
}

export function countWorkers(tx: Tx, queue: string): number {
  return tx.get<{ count: number }>(COUNT_OF_QUEUE, tx.awake, queue)!.count;
}
