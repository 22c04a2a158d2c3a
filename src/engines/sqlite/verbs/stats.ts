import {
  describeFlow,
  describeServiceTimes,
  type Flow,
  LATEST_SUCCESSES,
  noFlow,
} from "../../../core/queue/flow.ts";
import { NO_DEPTH, type QueueFigures, type QueueStats } from "../../../core/task/task.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { heldBack } from "../line/held-back.ts";
import { COUNTED, type Queue } from "../transaction/queue-cache.ts";
import { countWorkers } from "./sessions.ts";
import type { Tx } from "../transaction/tx.ts";

/** The statistics of a queue. `queues` reads the same figures for many (queues.ts). */

/** Below every rank. */
const FIRST = Number.MIN_SAFE_INTEGER;

const FLOW = `
  SELECT coalesce(sum(added), 0) AS added, coalesce(sum(claimed), 0) AS claimed, coalesce(sum(done), 0) AS done,
    coalesce(sum(failed), 0) AS failed, coalesce(sum(wait_ms), 0) AS waitMs, coalesce(sum(service_ms), 0) AS serviceMs
  FROM flow WHERE queue = ? AND slot > ?`;

export function stats(tx: Tx, { queue: name }: Verbs["stats"]["in"]): QueueStats {
  const queue = tx.queues.named(name);
  const workers = countWorkers(tx, name);
  if (!queue)
    return { queue: name, exists: false, paused: false, ...NO_FIGURES, workers, serviceTimes: null };
  return {
    queue: name,
    exists: true,
    paused: queue.paused,
    ...figuresOf(tx, queue),
    workers,
    serviceTimes: describeServiceTimes(latestServiceTimes(tx, queue)),
  };
}

const NO_FIGURES = {
  depth: NO_DEPTH,
  oldestAge: null,
  ...describeFlow(noFlow(), BOUNDS.rateWindow),
  heldBack: null,
};

/** Without the number of its workers: a caller with many queues counts them for all. */
export function figuresOf(tx: Tx, queue: Queue): Omit<QueueFigures, "workers"> {
  const depth = tx.counters.depth(queue);
  const since = Math.floor((tx.now - BOUNDS.rateWindow) / BOUNDS.rateSlot);
  return {
    depth,
    // Most of many queues have nothing ready, and need no search for the oldest.
    oldestAge: depth.ready === 0 ? null : oldestAge(tx, queue),
    ...describeFlow(tx.get<Flow>(FLOW, queue.id, since)!, BOUNDS.rateWindow),
    heldBack: heldBack(tx, queue),
  };
}

const LATEST_TIMES = `
  SELECT ended_at - started_at AS ms FROM ended INDEXED BY ended_order
  WHERE queue = ? AND state = 'done' ORDER BY ended_at DESC LIMIT ${LATEST_SUCCESSES}`;

function latestServiceTimes(tx: Tx, queue: Queue): number[] {
  return tx.all<{ ms: number }>(LATEST_TIMES, queue.id).map(({ ms }) => ms);
}

const FIRST_OF_RANK = `
  SELECT rank, task FROM ready WHERE queue = ? AND rank > ? ORDER BY rank, pos LIMIT 1`;
const FIRST_MOVED = `
  SELECT min(task) AS task FROM ready INDEXED BY ready_moved WHERE queue = ? AND pos <> task`;
const FIRST_ELSEWHERE = `SELECT min(task) AS task FROM ready_elsewhere WHERE queue = ?`;
const FIRST_STICKY = `SELECT min(task) AS task FROM ready_sticky WHERE queue = ?`;
const CREATED_AT = `SELECT created_at FROM task WHERE seq = ?`;

/** Goes from rank to rank, so that the cost depends on the number of priorities, not on the depth. */
function oldestAge(tx: Tx, queue: Queue): number | null {
  const moved = tx.get<{ task: number | null }>(FIRST_MOVED, queue.id)!.task;
  const elsewhere = tx.get<{ task: number | null }>(FIRST_ELSEWHERE, queue.id)!.task;
  const sticky =
    queue.lanes === COUNTED ? tx.get<{ task: number | null }>(FIRST_STICKY, queue.id)!.task : null;
  let oldest = Math.min(...[moved, elsewhere, sticky].map((task) => task ?? Number.POSITIVE_INFINITY));
  let first = tx.get<{ rank: number; task: number }>(FIRST_OF_RANK, queue.id, FIRST);
  while (first) {
    oldest = Math.min(oldest, first.task);
    first = tx.get(FIRST_OF_RANK, queue.id, first.rank);
  }
  if (oldest === Number.POSITIVE_INFINITY) return null;
  return tx.now - tx.get<{ created_at: number }>(CREATED_AT, oldest)!.created_at;
}
