import { governsGroups } from "../../../core/queue/policy.ts";
import { isOver, NO_METER } from "../../../core/queue/rate.ts";
import { stateFrom } from "./lanes.ts";
import { HEAD_ONLY, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** Lanes that one call reads. A lane that stores nothing costs only its row. */
const LANES = 10_000;

interface LaneRow {
  group_key: string;
  state: string | null;
}

const PAGE = `
  SELECT group_key, state FROM lane WHERE queue = ? AND group_key > ? ORDER BY group_key LIMIT 0 + ?`;
const LIVES = `SELECT 1 FROM session WHERE id = ?`;
const DELETE_LANE = `
  DELETE FROM lane WHERE queue = ? AND group_key = ?
    AND NOT EXISTS (SELECT 1 FROM waiting WHERE waiting.queue = lane.queue AND waiting.group_key = lane.group_key)`;

/** Deletes lanes that have nothing to store any more. `prune` calls it. */
export function pruneLanes(tx: Tx): void {
  for (const queue of tx.queues.all) {
    if (queue.lanes === HEAD_ONLY) continue;
    pruneLanesOf(tx, queue);
    if (!governsGroups(queue.policy) && isPlain(tx, queue)) lowerLanes(tx, queue);
  }
}

/** Continues where the last call stopped. */
function pruneLanesOf(tx: Tx, queue: Queue): void {
  const page = tx.all<LaneRow>(PAGE, queue.id, tx.prunedLanes.get(queue.id) ?? "", LANES);
  for (const { group_key: key, state } of page) if (isEmpty(tx, state)) tx.run(DELETE_LANE, queue.id, key);
  if (page.length === LANES) tx.prunedLanes.set(queue.id, page.at(-1)!.group_key);
  else tx.prunedLanes.delete(queue.id);
}

/** It has no heads and no waiting tasks, and stores nothing. */
function isEmpty(tx: Tx, state: string | null): boolean {
  const { holders, session, meter = NO_METER, heldUntil = 0, wakeAt } = stateFrom(state);
  if (holders > 0 || wakeAt !== undefined || heldUntil > tx.now) return false;
  if (!isOver(meter, tx.now)) return false;
  return session === undefined || tx.get(LIVES, session) === undefined;
}

const ODD = [
  `
  SELECT 1 FROM lane
  WHERE queue = ? AND state IS NOT NULL AND json_remove(state, '$.line') <> '{"holders":1}' LIMIT 1`,
  `SELECT 1 FROM ready_sticky WHERE queue = ? LIMIT 1`,
  ...["ready", "ready_elsewhere"].map(
    (table) => `
  SELECT 1 FROM ${table} INDEXED BY ${table}_moved CROSS JOIN task ON task.seq = ${table}.task
  WHERE ${table}.queue = ? AND ${table}.pos <> ${table}.task AND ${table}.pos <> coalesce(task.pos, task.seq) LIMIT 1`,
  ),
];

/** Nothing is left from the time when its groups had limits: the queue can take the fast path again. */
function isPlain(tx: Tx, queue: Queue): boolean {
  return ODD.every((sql) => tx.get(sql, queue.id) === undefined);
}

const FORGET = `UPDATE lane SET state = NULL WHERE queue = ? AND state IS NOT NULL`;

function lowerLanes(tx: Tx, queue: Queue): void {
  tx.run(FORGET, queue.id);
  queue.lanes = HEAD_ONLY;
  tx.queues.store(queue);
}
