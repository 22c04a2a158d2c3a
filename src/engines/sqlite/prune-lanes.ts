import { governsGroups } from "../../core/policy.ts";
import { isOver } from "../../core/rate.ts";
import { meterFrom } from "./lanes.ts";
import { HEADS, type Queue, type Tx } from "./tx.ts";

/** Lanes that one call looks at: one that remembers nothing costs a row, and no more. */
const LOOK = 10_000;

interface EmptyLane {
  queue: number;
  group_key: string;
  session: number | null;
  meter: string | null;
  held_until: number | null;
}

const EMPTY = `
  SELECT queue, group_key, session, meter, held_until FROM lane
  WHERE holders = 0 AND wake_at IS NULL AND (queue, group_key) > (?, ?)
  ORDER BY queue, group_key LIMIT 0 + ?`;
const LIVES = `SELECT 1 FROM session WHERE id = ?`;
const DELETE_LANE = `
  DELETE FROM lane WHERE queue = ? AND group_key = ?
    AND NOT EXISTS (SELECT 1 FROM waiting WHERE waiting.queue = lane.queue AND waiting.group_key = lane.group_key)`;

/** Lanes that were kept for what they remember, and remember nothing any more. */
export function pruneLanes(tx: Tx): void {
  if (!tx.hasLimits) return;
  const page = tx.all<EmptyLane>(EMPTY, ...tx.prunedLanes, LOOK);
  for (const lane of page) {
    if (!remembers(tx, lane)) tx.run(DELETE_LANE, lane.queue, lane.group_key);
  }
  const last = page.at(-1);
  tx.prunedLanes = last && page.length === LOOK ? [last.queue, last.group_key] : [0, ""];
  for (const queue of tx.queues) if (isPlainAgain(tx, queue)) lowerLanes(tx, queue);
}

function remembers(tx: Tx, lane: EmptyLane): boolean {
  const { rateLimit } = tx.queueOf(lane.queue).policy.groups;
  return (
    (lane.held_until !== null && lane.held_until > tx.now) ||
    !isOver(rateLimit, meterFrom(lane.meter), tx.now) ||
    (lane.session !== null && tx.get(LIVES, lane.session) !== undefined)
  );
}

const ODD = [
  `
  SELECT 1 FROM lane
  WHERE queue = ? AND (holders <> 1 OR coalesce(session, meter, held_until, wake_at) IS NOT NULL) LIMIT 1`,
  `SELECT 1 FROM own WHERE queue = ? LIMIT 1`,
  ...["ready", "kept"].map(
    (table) => `
  SELECT 1 FROM ${table} INDEXED BY ${table}_moved CROSS JOIN task ON task.seq = ${table}.task
  WHERE ${table}.queue = ? AND ${table}.pos <> ${table}.task AND ${table}.pos <> coalesce(task.pos, task.seq) LIMIT 1`,
  ),
];

/** Groups are an order and no more, and nothing is left of when they were: it need not be slower than others. */
function isPlainAgain(tx: Tx, queue: Queue): boolean {
  if (queue.lanes === HEADS || governsGroups(queue.policy)) return false;
  return ODD.every((sql) => tx.get(sql, queue.id) === undefined);
}

function lowerLanes(tx: Tx, queue: Queue): void {
  queue.lanes = HEADS;
  tx.storeQueue(queue);
}
