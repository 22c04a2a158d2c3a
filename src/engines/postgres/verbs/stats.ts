import { describeFlow, describeServiceTimes, LATEST_SUCCESSES, noFlow } from "../../../core/queue/flow.ts";
import { NO_DEPTH, type QueueStats } from "../../../core/task/task.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { readFlow } from "../transaction/counters.ts";
import { aboveFloor } from "../line/floors.ts";
import { heldBack } from "../line/held-back.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { countWorkers } from "./sessions.ts";
import type { Tx } from "../transaction/tx.ts";

/** The verb `stats`: depth, rates and ages of one queue, from counters. */

export async function stats(tx: Tx, { queue: name }: Verbs["stats"]["in"]): Promise<QueueStats> {
  const queue = tx.queues.named(name);
  const depth = queue ? await tx.counters.depth(queue) : NO_DEPTH;
  const since = Math.floor((tx.now - BOUNDS.rateWindow) / BOUNDS.rateSlot);
  const flow = queue ? await readFlow(tx, queue.id, since) : noFlow();
  return {
    queue: name,
    exists: queue !== undefined,
    paused: queue?.paused ?? false,
    depth: { ...depth },
    oldestAge: queue ? await oldestAge(tx, queue) : null,
    ...describeFlow(flow, BOUNDS.rateWindow),
    serviceTimes: queue ? describeServiceTimes(await latestServiceTimes(tx, queue)) : null,
    workers: await countWorkers(tx, name),
    heldBack: queue ? await heldBack(tx, queue) : null,
  };
}

const LATEST_TIMES = `
  SELECT coalesce(array_agg(ms), '{}') AS times FROM (
    SELECT ended_at - started_at AS ms FROM dibs.ended
    WHERE queue = $1 AND state = 'done' ORDER BY ended_at DESC, task DESC LIMIT ${LATEST_SUCCESSES}) AS latest`;

async function latestServiceTimes(tx: Tx, queue: Queue): Promise<number[]> {
  const row = await tx.get<{ times: (number | string)[] }>(LATEST_TIMES, queue.id);
  return row!.times.map(Number);
}

// Goes from rank to rank, so that the cost depends on the number of priorities, not on the depth.
const OLDEST_WITH = (more: string): string => `
  WITH RECURSIVE first AS (
    (SELECT rank, task FROM dibs.ready WHERE queue = $1 AND ${aboveFloor("$1")} ORDER BY rank, pos LIMIT 1)
    UNION ALL
    SELECT next.rank, next.task FROM first CROSS JOIN LATERAL (
      SELECT rank, task FROM dibs.ready WHERE queue = $1 AND rank > first.rank ORDER BY rank, pos LIMIT 1) AS next
  ), oldest AS (
    SELECT least(
      (SELECT min(task) FROM first),
      (SELECT min(task) FROM dibs.ready WHERE queue = $1 AND pos <> task),
      (SELECT min(task) FROM dibs.ready_elsewhere WHERE queue = $1)${more}) AS seq)
  SELECT created_at FROM oldest JOIN dibs.task ON task.seq = oldest.seq`;
const OLDEST = OLDEST_WITH("");
const OLDEST_WITH_LIMITS = OLDEST_WITH(`, (SELECT min(task) FROM dibs.ready_sticky WHERE queue = $1)`);

export async function oldestAge(tx: Tx, queue: Queue): Promise<number | null> {
  const sql = queue.limited ? OLDEST_WITH_LIMITS : OLDEST;
  const oldest = await tx.get<{ created_at: number }>(sql, queue.id);
  return oldest ? tx.now - oldest.created_at : null;
}
