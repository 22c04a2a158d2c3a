import type { EndState } from "../../../core/task/task.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import type { EventsAfter, Verbs } from "../../../engine/engine.ts";
import { fold } from "../transaction/counters.ts";
import { dueDocuments } from "./documents.ts";
import { withRuns } from "../line/first-due.ts";
import { sinceFloor } from "../line/floors.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { pastRetention } from "../../../core/task/retention.ts";
import { NEVER } from "../../../core/task/transition.ts";
import { pruningLock, tryLock } from "../connection/locks.ts";
import { pruneLanes } from "../limits/prune-lanes.ts";
import { isAmong } from "../statements/look-up.ts";
import { DELETE_LOGS } from "../flows/log.ts";
import { dissolveEnded } from "../flows/children.ts";
import { keepEnds, pruneRuns } from "../flows/runs.ts";
import { nextDue, sweep } from "../line/sweep.ts";
import type { Tx } from "../transaction/tx.ts";

/** The verbs `housekeep` and `prune`, which broker/housekeeping calls, and the listeners to events. */

export async function housekeep(tx: Tx): Promise<Verbs["housekeep"]["out"]> {
  await sweep(tx);
  await fold(tx);
  return outlook(tx);
}

// A session does not end while it has claims, even without heartbeats. Claims are scanned only if some have another
// lease than their session.
const FIRST = `
  SELECT min(heartbeat_at + CASE WHEN mixed
    THEN coalesce((SELECT min(claim.lease) FROM dibs.claim WHERE claim.session = session.id), lease)
    ELSE lease END) AS session,
    (SELECT min(due_at) FROM dibs.document WHERE due_at IS NOT NULL) AS document
  FROM dibs.session WHERE ${sinceFloor("session", "heartbeat_at + lease")}`;

/** What is still due after a sweep is locked by another transaction, for about as long as a batch takes. */
const OTHERS_MS = 10;

async function outlook(tx: Tx): Promise<Verbs["housekeep"]["out"]> {
  const { hand, due: firstDue, elsewhere, ttl, wake = null } = await nextDue(tx);
  const due = firstDue === NEVER ? null : firstDue;
  const first = (await tx.get<{ session: number | null; document: number | null }>(FIRST))!;
  const documents = await dueDocuments(tx, first.document);
  const waits = [
    ...[due, elsewhere, ttl, wake, documents.next].filter((at) => at !== null).map((at) => at - tx.now),
    ...[hand, first.session].filter((at) => at !== null).map((at) => at - tx.now),
  ].map((wait) => (wait > 0 ? wait : tx.batch.hasMoreDue ? 0 : OTHERS_MS));
  const next = waits.length === 0 ? null : Math.min(...waits);
  return { next, now: tx.now, due: documents.due };
}

const FORGET_KEYS = `
  DELETE FROM dibs.idempotency WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM dibs.idempotency WHERE forget_at <= $1 ORDER BY forget_at LIMIT $2 FOR UPDATE SKIP LOCKED))`;
const DELETE_FLOW = `DELETE FROM dibs.flow WHERE slot <= $1`;

/** Keys that one call deletes. An expired key is free even if its row still exists. */
const KEYS = 10_000;

/** One process at a time prunes. Others leave it to that one. */
export async function prune(
  tx: Tx,
  { limit }: Verbs["prune"]["in"],
): Promise<{ removed: number; more: boolean }> {
  if (!(await tryLock(tx, pruningLock(tx.link.schema)))) return { removed: 0, more: false };
  let removed = 0;
  let more = false;
  for (const [queue, kept] of await withEndsToGo(tx)) {
    const doomed = await endedToPrune(tx, queue, kept, limit - removed + 1);
    if (doomed.length > limit - removed) {
      more = true;
      doomed.pop();
    }
    await removeEnded(tx, queue, doomed);
    removed += doomed.length;
  }
  await tx.run(FORGET_KEYS, tx.now, KEYS);
  await tx.run(DELETE_FLOW, Math.floor((tx.now - BOUNDS.rateWindow) / BOUNDS.rateSlot));
  await pruneEvents(tx);
  more = (await pruneRuns(tx, limit)) || more;
  if (tx.queues.hasLimits) await pruneLanes(tx);
  return { removed, more };
}

interface EndedRow {
  ended_at: number;
  task: number;
  state: Exclude<EndState, "dead">;
}

// Rows that another transaction is deleting are skipped: it prunes too, or drops the queue.
const ENDED = `
  SELECT ended_at, task, state FROM dibs.ended WHERE queue = $1 ORDER BY ended_at, task LIMIT $2
  FOR UPDATE SKIP LOCKED`;

// One statement for all queues: there may be ten thousand, and few have something to delete.
const FIRST_ENDS = `
  SELECT kept.queue, kept.count, first.ended_at
  FROM (
    SELECT queue, sum(done + cancelled + expired)::int8 AS count
    FROM (SELECT queue, done, cancelled, expired FROM dibs.depth
      UNION ALL SELECT queue, done, cancelled, expired FROM dibs.delta) AS part
    GROUP BY queue HAVING sum(done + cancelled + expired) > 0
  ) AS kept
  CROSS JOIN LATERAL (
    SELECT ended_at FROM dibs.ended WHERE ended.queue = kept.queue ORDER BY ended_at, task LIMIT 1) AS first`;

/** Queues with ended tasks that are too old or too many, and how many they have. */
async function withEndsToGo(tx: Tx): Promise<Map<Queue, number>> {
  tx.counters.flush();
  const rows = await tx.all<{ queue: number; count: number; ended_at: number }>(FIRST_ENDS);
  const byQueue = new Map(rows.map((row) => [row.queue, row]));
  const found = new Map<Queue, number>();
  for (const queue of tx.queues.all) {
    const row = byQueue.get(queue.id);
    const { age, count } = queue.policy.retention;
    if (row && (row.ended_at + age <= tx.now || row.count > count)) found.set(queue, row.count);
  }
  return found;
}

/** Too old, or beyond the last `count`; the earliest end first. */
async function endedToPrune(tx: Tx, queue: Queue, kept: number, limit: number): Promise<EndedRow[]> {
  const earliest = await tx.all<EndedRow>(ENDED, queue.id, limit);
  const { retention } = queue.policy;
  const doomed = pastRetention(earliest, (row) => row.ended_at, retention, { ended: kept, now: tx.now });
  return withRuns(tx, doomed);
}

const DELETE_LEDGERS = `DELETE FROM dibs.attempt WHERE task = ANY ($1::int8[])`;
const DELETE_TASKS = `DELETE FROM dibs.task WHERE seq = ANY ($1::int8[])`;
const DELETE_ENDED = `DELETE FROM dibs.ended WHERE ${isAmong("ended", "$1::int8[]")}`;

/** In bulk: as many tasks end as are added, and this must keep up. Keys live longer than their tasks. */
async function removeEnded(tx: Tx, queue: Queue, doomed: EndedRow[]): Promise<void> {
  if (doomed.length === 0) return;
  const seqs = doomed.map((row) => row.task);
  keepEnds(tx, seqs);
  dissolveEnded(tx, seqs);
  for (const sql of [DELETE_LEDGERS, DELETE_LOGS, DELETE_TASKS, DELETE_ENDED]) tx.send(sql, seqs);
  for (const row of doomed) tx.counters.count(queue, row.state, -1);
}

const FORGET_LISTENERS = `DELETE FROM dibs.listener WHERE until <= $1`;
const DELETE_EVENTS = `DELETE FROM dibs.event WHERE n <= $1`;
// Above the event bound most events are only counted. If rows were deleted by number alone, the important events
// among them would be deleted at once.
const DELETE_OLD_EVENTS = `
  DELETE FROM dibs.event WHERE n <= $1 AND n <= (SELECT n FROM dibs.event ORDER BY n DESC LIMIT 1 OFFSET $2::int8)`;

async function pruneEvents(tx: Tx): Promise<void> {
  tx.events.listeners -= await tx.run(FORGET_LISTENERS, tx.now);
  const last = await tx.events.last();
  // The last row stays: the next event gets the number after it.
  if (tx.events.listeners === 0) await tx.run(DELETE_EVENTS, last - 1);
  else await tx.run(DELETE_OLD_EVENTS, last - BOUNDS.events, BOUNDS.eventRows);
}

const LISTENER = `SELECT until FROM dibs.listener WHERE name = $1`;
const SET_LISTENER = `
  INSERT INTO dibs.listener (name, until) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET until = excluded.until`;
/** The lease of a listener is renewed now and then, not with every call. */
function isFresh(tx: Tx, until: number): boolean {
  return until - tx.now > (BOUNDS.listenerLease * 2) / 3;
}

export async function listen(
  tx: Tx,
  { listener, after, limit }: Verbs["listen"]["in"],
): Promise<EventsAfter> {
  const row = await tx.get<{ until: number }>(LISTENER, listener);
  if (!row) tx.events.listeners++;
  if (!row || !isFresh(tx, row.until)) tx.send(SET_LISTENER, listener, tx.now + BOUNDS.listenerLease);
  const page = await tx.events.after(after, limit);
  // The listener had expired, so events since then were not written. It gets a gap.
  return !row && after !== null ? { ...page, missed: Math.max(page.missed, 1) } : page;
}

const UNLISTEN = `DELETE FROM dibs.listener WHERE name = $1`;

export async function unlisten(tx: Tx, { listener }: Verbs["unlisten"]["in"]): Promise<null> {
  tx.events.listeners -= await tx.run(UNLISTEN, listener);
  return null;
}
