import { noFlow } from "../../../core/queue/flow.ts";
import { type DepthByState, NO_DEPTH } from "../../../core/task/task.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import { UncommittedCounts } from "../../../engine/uncommitted-counts.ts";
import type { Queue } from "./queue-cache.ts";
import { foldingLock, tryLock } from "../connection/locks.ts";
import type { Tx } from "./tx.ts";

/**
 * Counters of queues without a row that every transaction writes: each transaction inserts its differences, readers sum
 * them up, and housekeeping folds them into one row per queue.
 */

const COLUMNS = [
  ...["queue", "slot", "ready", "waiting", "scheduled", "claimed", "done", "dead", "cancelled", "expired"],
  ...["added", "started", "succeeded", "failed", "wait_ms", "service_ms", "parked", "verifying"],
];

// OFFSET 0: merged into the outer query, string_to_array would be called eighteen times per row.
const INSERT = `
  INSERT INTO dibs.delta (${COLUMNS.join(", ")}) SELECT ${COLUMNS.map((_, i) => `d[${i + 1}]`).join(", ")}
  FROM (SELECT string_to_array(line, ',')::int8[] AS d FROM unnest($1::text[]) AS line OFFSET 0) AS each`;

const DEPTH = `
  SELECT sum(ready)::int8 AS ready, sum(waiting)::int8 AS waiting, sum(scheduled)::int8 AS scheduled,
    sum(claimed)::int8 AS claimed, sum(done)::int8 AS done, sum(dead)::int8 AS dead,
    sum(cancelled)::int8 AS cancelled, sum(expired)::int8 AS expired, sum(parked)::int8 AS parked,
    sum(verifying)::int8 AS verifying
  FROM (
    SELECT ready, waiting, scheduled, claimed, done, dead, cancelled, expired, parked, verifying
    FROM dibs.depth WHERE queue = $1
    UNION ALL
    SELECT ready, waiting, scheduled, claimed, done, dead, cancelled, expired, parked, verifying
    FROM dibs.delta WHERE queue = $1
    UNION ALL
    SELECT 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
  ) AS part`;

/** Writes and reads the counters of the queues. */
export class Counters extends UncommittedCounts<Queue> {
  readonly #tx: Tx;

  constructor(tx: Tx) {
    super();
    this.#tx = tx;
  }

  async depth(queue: Queue): Promise<DepthByState> {
    this.flush();
    return (await this.#tx.get<DepthByState>(DEPTH, queue.id))!;
  }

  /** Writes what was counted so far. */
  flush(): void {
    const queues = new Set([...this.depths.keys(), ...this.flows.keys()]);
    if (queues.size === 0) return;
    const slot = Math.floor(this.#tx.now / BOUNDS.rateSlot);
    this.#tx.put(
      INSERT,
      [...queues].map((queue) => this.#line(queue, slot)),
    );
    this.forget();
  }

  #line(queue: Queue, slot: number): string {
    const d = this.depths.get(queue) ?? NO_DEPTH;
    const f = this.flows.get(queue) ?? noFlow();
    return [
      [queue.id, slot, d.ready, d.waiting, d.scheduled, d.claimed, d.done, d.dead, d.cancelled, d.expired],
      [f.added, f.claimed, f.done, f.failed, f.waitMs, f.serviceMs, d.parked, d.verifying],
    ]
      .flat()
      .join(",");
  }
}

/** Fewer rows are not worth a write: readers sum them up. */
const ENOUGH = 200;
/** More rows than a busy store writes between two rounds of housekeeping. */
const MOST = 20_000;

const COUNT = `SELECT count(*)::int4 AS count FROM (SELECT 1 FROM dibs.delta LIMIT $1::int4) AS part`;
const FOLD = `
  WITH gone AS (
    DELETE FROM dibs.delta WHERE ctid = ANY (ARRAY (SELECT ctid FROM dibs.delta LIMIT $1::int4)) RETURNING *
  ), depths AS (
    INSERT INTO dibs.depth
      (queue, ready, waiting, scheduled, claimed, done, dead, cancelled, expired, parked, verifying)
    SELECT queue, sum(ready), sum(waiting), sum(scheduled), sum(claimed), sum(done), sum(dead), sum(cancelled),
      sum(expired), sum(parked), sum(verifying)
    FROM gone GROUP BY queue ORDER BY queue
    ON CONFLICT (queue) DO UPDATE SET
      ready = depth.ready + excluded.ready, waiting = depth.waiting + excluded.waiting,
      scheduled = depth.scheduled + excluded.scheduled, claimed = depth.claimed + excluded.claimed,
      done = depth.done + excluded.done, dead = depth.dead + excluded.dead,
      cancelled = depth.cancelled + excluded.cancelled, expired = depth.expired + excluded.expired,
      parked = depth.parked + excluded.parked, verifying = depth.verifying + excluded.verifying
  )
  INSERT INTO dibs.flow (queue, slot, added, started, succeeded, failed, wait_ms, service_ms)
  SELECT queue, slot, sum(added), sum(started), sum(succeeded), sum(failed), sum(wait_ms), sum(service_ms)
  FROM gone GROUP BY queue, slot ORDER BY queue, slot
  ON CONFLICT (queue, slot) DO UPDATE SET
    added = flow.added + excluded.added, started = flow.started + excluded.started,
    succeeded = flow.succeeded + excluded.succeeded, failed = flow.failed + excluded.failed,
    wait_ms = flow.wait_ms + excluded.wait_ms, service_ms = flow.service_ms + excluded.service_ms`;

/** If another process is folding, this does nothing. */
export async function fold(tx: Tx): Promise<void> {
  const { count } = (await tx.get<{ count: number }>(COUNT, ENOUGH))!;
  if (count < ENOUGH) return;
  if (await tryLock(tx, foldingLock(tx.link.schema))) await tx.run(FOLD, MOST);
}
