import { pastRetention } from "../../../core/task/retention.ts";
import { NEVER } from "../../../core/task/transition.ts";
import type { EndState } from "../../../core/task/task.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import type { EventsAfter, Verbs } from "../../../engine/engine.ts";
import { dueDocuments } from "./documents.ts";
import { pruneGates } from "../limits/gates.ts";
import { pruneLanes } from "../limits/prune-lanes.ts";
import { loseEndedRelatives } from "../flows/children.ts";
import { keepEnds, pruneRuns } from "../flows/runs.ts";
import { nextDue, sweep, sweepIsDue } from "../line/sweep.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** The verbs `housekeep` and `prune`, which broker/housekeeping calls, and the listeners to events. */

export function housekeep(tx: Tx): Verbs["housekeep"]["out"] {
  sweep(tx);
  return outlook(tx);
}

/** The answer if there is nothing to do, which needs no lock; undefined if there is. */
export function nothingToHousekeep(tx: Tx): Verbs["housekeep"]["out"] | undefined {
  return sweepIsDue(tx) ? undefined : outlook(tx);
}

const MIXED = `SELECT 1 FROM session WHERE mixed = 1 LIMIT 1`;
// A session does not end while it has claims, even without heartbeats.
const FIRST_OF_SESSION = `
  SELECT min(heartbeat_at + coalesce((SELECT min(claim.lease) FROM claim WHERE claim.session = session.id), lease)) AS at
  FROM session`;
const FIRST_SESSION = `SELECT min(heartbeat_at + lease) AS at FROM session`;

function outlook(tx: Tx): Verbs["housekeep"]["out"] {
  const { due, next } = dueDocuments(tx);
  return { next: untilNext(tx, next), now: tx.now, due };
}

function untilNext(tx: Tx, document: number | null): number | null {
  const { hand, due: firstDue, elsewhere, ttl, wake } = nextDue(tx);
  const due = firstDue === NEVER ? null : firstDue;
  // Claims are scanned only if some have another lease than their session.
  const first = tx.get<{ at: number | null }>(tx.get(MIXED) ? FIRST_OF_SESSION : FIRST_SESSION)!;
  const waits = [
    ...[due, elsewhere, ttl, wake, document].filter((at) => at !== null).map((at) => at - tx.now),
    ...[hand, first.at].filter((at) => at !== null).map((at) => at - tx.awake),
  ];
  return waits.length === 0 ? null : Math.max(0, Math.min(...waits));
}

const FORGET_KEYS = `
  DELETE FROM idempotency WHERE (queue, key) IN (
    SELECT queue, key FROM idempotency WHERE forget_at <= ? ORDER BY forget_at LIMIT 0 + ?)`;
const DELETE_FLOW = `DELETE FROM flow WHERE slot <= ?`;

/** Keys that one call deletes. An expired key is free even if its row still exists. */
const KEYS = 10_000;

export function prune(tx: Tx, { limit }: Verbs["prune"]["in"]): { removed: number; more: boolean } {
  let removed = 0;
  let more = false;
  for (const queue of tx.queues.all) {
    const doomed = endedToPrune(tx, queue, limit - removed + 1);
    if (doomed.length > limit - removed) {
      more = true;
      doomed.pop();
    }
    removeEnded(tx, queue, doomed);
    removed += doomed.length;
  }
  tx.run(FORGET_KEYS, tx.now, KEYS);
  tx.run(DELETE_FLOW, Math.floor((tx.now - BOUNDS.rateWindow) / BOUNDS.rateSlot));
  pruneEvents(tx);
  pruneLanes(tx);
  pruneGates(tx);
  more = pruneRuns(tx, limit) || more;
  return { removed, more };
}

interface EndedRow {
  ended_at: number;
  task: number;
  state: Exclude<EndState, "dead">;
}

const ENDED = `SELECT ended_at, task, state FROM ended WHERE queue = ? ORDER BY ended_at, task LIMIT 0 + ?`;

/** The earliest end first. */
function endedToPrune(tx: Tx, queue: Queue, limit: number): EndedRow[] {
  const { done, cancelled, expired } = tx.counters.depth(queue);
  const ended = done + cancelled + expired;
  const earliest = tx.all<EndedRow>(ENDED, queue.id, limit);
  return pastRetention(earliest, (row) => row.ended_at, queue.policy.retention, { ended, now: tx.now });
}

const DOOMED = `SELECT task FROM ended WHERE queue = ? AND (ended_at, task) <= (?, ?)`;
const DELETE_LEDGERS = `DELETE FROM attempt WHERE task IN (${DOOMED})`;
const DELETE_LOGS = `DELETE FROM log WHERE task IN (${DOOMED})`;
const DELETE_TASKS = `DELETE FROM task WHERE seq IN (${DOOMED})`;
const DELETE_ENDED = `DELETE FROM ended WHERE queue = ? AND (ended_at, task) <= (?, ?)`;

/** In bulk: as many tasks end as are added, and this must keep up. Keys live longer than their tasks. */
function removeEnded(tx: Tx, queue: Queue, doomed: EndedRow[]): void {
  const last = doomed.at(-1);
  if (!last) return;
  keepEnds(tx, queue.id, last.ended_at, last.task);
  loseEndedRelatives(tx, queue.id, last.ended_at, last.task);
  for (const sql of [DELETE_LEDGERS, DELETE_LOGS, DELETE_TASKS, DELETE_ENDED]) {
    tx.run(sql, queue.id, last.ended_at, last.task);
  }
  for (const row of doomed) tx.counters.count(queue, row.state, -1);
}

const FORGET_LISTENERS = `DELETE FROM listener WHERE until <= ?`;
const DELETE_EVENTS = `DELETE FROM event WHERE n <= ?`;
// Above the event bound most events are only counted. If rows were deleted by number alone, the important events
// among them would be deleted at once.
const DELETE_OLD_EVENTS = `
  DELETE FROM event WHERE n <= ? AND n <= (SELECT n FROM event ORDER BY n DESC LIMIT 1 OFFSET ?)`;

function pruneEvents(tx: Tx): void {
  tx.events.write();
  tx.listeners -= tx.run(FORGET_LISTENERS, tx.awake);
  if (tx.listeners === 0) tx.run(DELETE_EVENTS, tx.event);
  else tx.run(DELETE_OLD_EVENTS, tx.event - BOUNDS.events, BOUNDS.eventRows);
}

const LISTENER = `SELECT until FROM listener WHERE name = ?`;
const SET_LISTENER = `INSERT OR REPLACE INTO listener (name, until) VALUES (?, ?)`;

/** The answer if the listener's lease is fresh, which needs no lock; undefined if it is not. */
export function listenOnly(
  tx: Tx,
  { listener, after, limit }: Verbs["listen"]["in"],
): EventsAfter | undefined {
  const row = tx.get<{ until: number }>(LISTENER, listener);
  return row && isFresh(tx, row.until) ? tx.events.after(after ?? tx.event, limit) : undefined;
}

/** Renewed now and then only: every commit wakes the other processes and their listeners. */
function isFresh(tx: Tx, until: number): boolean {
  return until - tx.awake > (BOUNDS.listenerLease * 2) / 3;
}

export function listen(tx: Tx, { listener, after, limit }: Verbs["listen"]["in"]): EventsAfter {
  const row = tx.get<{ until: number }>(LISTENER, listener);
  if (!row) tx.listeners++;
  if (!row || !isFresh(tx, row.until)) tx.run(SET_LISTENER, listener, tx.awake + BOUNDS.listenerLease);
  const page = tx.events.after(after ?? tx.event, limit);
  // The listener had expired, so events since then were not written. It gets a gap.
  return !row && after !== null ? { ...page, missed: Math.max(page.missed, 1) } : page;
}

const UNLISTEN = `DELETE FROM listener WHERE name = ?`;

export function unlisten(tx: Tx, { listener }: Verbs["unlisten"]["in"]): null {
  tx.listeners -= tx.run(UNLISTEN, listener);
  return null;
}
