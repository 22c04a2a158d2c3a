import type { DepthByState } from "../../../core/task.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import { UncommittedCounts } from "../../../engine/uncommitted-counts.ts";
import type { Queue } from "./queue-cache.ts";
import type { Tx } from "./tx.ts";

/** Counters per queue (depth by state, throughput), which a transaction collects and writes once. */

const ADD_DEPTH = `
  UPDATE depth SET ready = ready + ?, waiting = waiting + ?, scheduled = scheduled + ?, claimed = claimed + ?,
    parked = parked + ?, verifying = verifying + ?, done = done + ?, dead = dead + ?, cancelled = cancelled + ?, expired = expired + ?
  WHERE queue = ?`;
const READ_DEPTH = `
  SELECT ready, waiting, scheduled, claimed, parked, verifying, done, dead, cancelled, expired FROM depth WHERE queue = ?`;
const READ_CLAIMED = `SELECT claimed FROM depth WHERE queue = ?`;
const ADD_FLOW = `
  INSERT INTO flow (queue, slot, added, claimed, done, failed, wait_ms, service_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (queue, slot) DO UPDATE SET
    added = added + excluded.added, claimed = claimed + excluded.claimed, done = done + excluded.done,
    failed = failed + excluded.failed, wait_ms = wait_ms + excluded.wait_ms,
    service_ms = service_ms + excluded.service_ms`;

/** Writes and reads the counters of the queues. */
export class Counters extends UncommittedCounts<Queue> {
  readonly #tx: Tx;

  constructor(tx: Tx) {
    super();
    this.#tx = tx;
  }

  depth(queue: Queue): DepthByState {
    this.flush();
    return this.#tx.get<DepthByState>(READ_DEPTH, queue.id)!;
  }

  /** How many of its tasks are claimed now. */
  claimed(queue: Queue): number {
    const { claimed } = this.#tx.get<{ claimed: number }>(READ_CLAIMED, queue.id)!;
    return claimed + (this.depths.get(queue)?.claimed ?? 0);
  }

  /** Writes what was counted so far. */
  flush(): void {
    for (const [queue, d] of this.depths) {
      const pending = [d.ready, d.waiting, d.scheduled, d.claimed, d.parked, d.verifying];
      this.#tx.run(ADD_DEPTH, ...pending, d.done, d.dead, d.cancelled, d.expired, queue.id);
    }
    const slot = Math.floor(this.#tx.now / BOUNDS.rateSlot);
    for (const [queue, f] of this.flows)
      this.#tx.run(ADD_FLOW, queue.id, slot, f.added, f.claimed, f.done, f.failed, f.waitMs, f.serviceMs);
    this.forget();
  }
}
