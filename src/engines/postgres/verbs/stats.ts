import {
  describeFlow,
  describeServiceTimes,
  type Flow,
  LATEST_SUCCESSES,
  noFlow,
} from "../../../core/queue/flow.ts";
import { type DepthByState, NO_DEPTH, type QueueFigures, type QueueStats } from "../../../core/task/task.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { aboveFloor } from "../line/floors.ts";
import { heldBack } from "../line/held-back.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";
import { workersByQueue } from "./sessions.ts";

/** The statistics of a queue, and the figures of many queues for `queues` (queues.ts). */

export async function stats(tx: Tx, { queue: name }: Verbs["stats"]["in"]): Promise<QueueStats> {
  const queue = tx.queues.named(name);
  if (!queue) {
    const workers = (await workersByQueue(tx, [name])).get(name) ?? 0;
    return { queue: name, exists: false, paused: false, ...NO_FIGURES, workers, serviceTimes: null };
  }
  const figures = (await figuresOf(tx, [queue])).get(queue.id)!;
  const serviceTimes = describeServiceTimes(await latestServiceTimes(tx, queue));
  return { queue: name, exists: true, paused: queue.paused, ...figures, serviceTimes };
}

const NO_FIGURES = {
  depth: NO_DEPTH,
  oldestAge: null,
  ...describeFlow(noFlow(), BOUNDS.rateWindow),
  heldBack: null,
};

const LATEST_TIMES = `
  SELECT coalesce(array_agg(ms), '{}') AS times FROM (
    SELECT ended_at - started_at AS ms FROM dibs.ended
    WHERE queue = $1 AND state = 'done' ORDER BY ended_at DESC, task DESC LIMIT ${LATEST_SUCCESSES}) AS latest`;

async function latestServiceTimes(tx: Tx, queue: Queue): Promise<number[]> {
  const row = await tx.get<{ times: (number | string)[] }>(LATEST_TIMES, queue.id);
  return row!.times.map(Number);
}

// Counters are read in one statement each: read queue by queue, the differences that are not folded yet would be scanned
// for each.
const PARTS = Object.keys(NO_DEPTH);
const DEPTHS = `
  SELECT queue, ${PARTS.map((part) => `sum(${part})::int8 AS ${part}`).join(", ")}
  FROM (
    SELECT queue, ${PARTS.join(", ")} FROM dibs.depth WHERE queue = ANY ($1::int4[])
    UNION ALL
    SELECT queue, ${PARTS.join(", ")} FROM dibs.delta WHERE queue = ANY ($1::int4[])
  ) AS part GROUP BY queue`;
const FLOWS = `
  SELECT queue, sum(added)::int8 AS added, sum(started)::int8 AS claimed, sum(succeeded)::int8 AS done,
    sum(failed)::int8 AS failed, sum(wait_ms)::int8 AS "waitMs", sum(service_ms)::int8 AS "serviceMs"
  FROM (
    SELECT queue, added, started, succeeded, failed, wait_ms, service_ms
    FROM dibs.flow WHERE queue = ANY ($1::int4[]) AND slot > $2
    UNION ALL
    SELECT queue, added, started, succeeded, failed, wait_ms, service_ms
    FROM dibs.delta WHERE queue = ANY ($1::int4[]) AND slot > $2
  ) AS part GROUP BY queue`;

/** By the queues' numbers. */
export async function figuresOf(tx: Tx, queues: readonly Queue[]): Promise<Map<number, QueueFigures>> {
  const ids = queues.map(({ id }) => id);
  const since = Math.floor((tx.now - BOUNDS.rateWindow) / BOUNDS.rateSlot);
  tx.counters.flush();
  const [depths, flows, workers] = await Promise.all([
    tx.all<DepthByState & { queue: number }>(DEPTHS, ids),
    tx.all<Flow & { queue: number }>(FLOWS, ids, since),
    workersByQueue(
      tx,
      queues.map(({ name }) => name),
    ),
  ]);
  const depthOf = new Map(depths.map(({ queue, ...depth }) => [queue, depth]));
  const flowOf = new Map(flows.map(({ queue, ...flow }) => [queue, flow]));
  const figures = queues.map(async (queue): Promise<[number, QueueFigures]> => {
    const depth = depthOf.get(queue.id) ?? { ...NO_DEPTH };
    const [oldest, held] = await Promise.all([
      // Most of many queues have nothing ready, and need no search for the oldest.
      depth.ready === 0 ? null : oldestAge(tx, queue),
      heldBack(tx, queue),
    ]);
    const flow = describeFlow(flowOf.get(queue.id) ?? noFlow(), BOUNDS.rateWindow);
    return [
      queue.id,
      { depth, oldestAge: oldest, ...flow, workers: workers.get(queue.name) ?? 0, heldBack: held },
    ];
  });
  return new Map(await Promise.all(figures));
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

async function oldestAge(tx: Tx, queue: Queue): Promise<number | null> {
  const sql = queue.limited ? OLDEST_WITH_LIMITS : OLDEST;
  const oldest = await tx.get<{ created_at: number }>(sql, queue.id);
  return oldest ? tx.now - oldest.created_at : null;
}
