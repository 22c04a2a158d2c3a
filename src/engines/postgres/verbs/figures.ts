import { describeFlow, type Flow, noFlow } from "../../../core/queue/flow.ts";
import { type DepthByState, NO_DEPTH, type QueueFigures } from "../../../core/task/task.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import { heldBack } from "../line/held-back.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";
import { workersByQueue } from "./sessions.ts";
import { oldestAge } from "./stats.ts";

// The figures of many queues, for `queues` with `stats`. Counters are read in one statement each: read queue by queue,
// the differences that are not folded yet would be scanned for each.

const PARTS = [
  "ready",
  "waiting",
  "scheduled",
  "claimed",
  "done",
  "dead",
  "cancelled",
  "expired",
  "parked",
  "verifying",
];
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
    workersByQueue(tx),
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
