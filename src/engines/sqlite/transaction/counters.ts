import { type DepthByState, NO_DEPTH, type TaskState } from "../../../core/task/task.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import { UncommittedCounts } from "../../../engine/uncommitted-counts.ts";
import { chunks, sized } from "../statements/chunks.ts";
import type { Queue } from "./queue-cache.ts";
import type { Tx } from "./tx.ts";

/** Counters per queue (depth by state, throughput), which a transaction collects and writes once. */

const STATES = Object.keys(NO_DEPTH) as TaskState[];
/** Adds to the counters of these states, for the queues of a list: to bind values costs as much as to add them. */
const addDepth = (states: readonly TaskState[]): ((size: number) => string) =>
  sized(
    `UPDATE depth SET ${states.map((state, i) => `${state} = ${state} + column${i + 2}`).join(", ")} FROM (VALUES `,
    () => `(?${", ?".repeat(states.length)})`,
    `) WHERE queue = column1`,
  );
const USUAL: readonly TaskState[] = ["ready", "claimed", "done"];
const ADD_USUAL = addDepth(USUAL);
const ADD_DEPTH = addDepth(STATES);
const READ_DEPTH = `
  SELECT ready, waiting, scheduled, claimed, parked, verifying, done, dead, cancelled, expired FROM depth WHERE queue = ?`;
const READ_CLAIMED = `SELECT claimed FROM depth WHERE queue = ?`;
const ADD_FLOW = sized(
  `INSERT INTO flow (queue, slot, added, claimed, done, failed, wait_ms, service_ms) VALUES `,
  () => `(?, :slot, ?, ?, ?, ?, ?, ?)`,
  ` ON CONFLICT (queue, slot) DO UPDATE SET
    added = added + excluded.added, claimed = claimed + excluded.claimed, done = done + excluded.done,
    failed = failed + excluded.failed, wait_ms = wait_ms + excluded.wait_ms,
    service_ms = service_ms + excluded.service_ms`,
);

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
    const depths = [...this.depths];
    const isUsual = depths.every(([, depth]) => isOnly(depth, USUAL));
    const [states, sql] = isUsual ? [USUAL, ADD_USUAL] : [STATES, ADD_DEPTH];
    for (const chunk of chunks(depths)) {
      const values = chunk.flatMap(([queue, depth]) => [queue.id, ...states.map((state) => depth[state])]);
      this.#tx.run(sql(chunk.length), ...values);
    }
    const slot = Math.floor(this.#tx.now / BOUNDS.rateSlot);
    for (const chunk of chunks([...this.flows])) {
      const values = chunk.flatMap(([{ id }, f]) => [
        ...[id, f.added, f.claimed, f.done, f.failed, f.waitMs, f.serviceMs],
      ]);
      this.#tx.runMany(ADD_FLOW(chunk.length), values, { slot });
    }
    this.forget();
  }
}

/** Whether the other counters have not changed. */
function isOnly(depth: DepthByState, states: readonly TaskState[]): boolean {
  return STATES.every((state) => depth[state] === 0 || states.includes(state));
}
