import { SLEEP_PREFIX } from "../../../core/handler/sleep-signal.ts";
import type { Body, Step } from "../../../core/task/task.ts";
import type { Tx } from "../transaction/tx.ts";

/** Stored steps and signals of tasks. `verbs/park.ts` writes them, claims read them. */

export const DELETE_STEPS = `DELETE FROM step WHERE task = ?`;

/** Waits that were in vain begin again. A sleep that is over stays over. */
export const DELETE_TIMEOUTS = `DELETE FROM step WHERE task = ? AND kind = 'timeout' AND name NOT LIKE '${SLEEP_PREFIX}%'`;
/** Steps of its handler, and its children. Signals stay. */
export const DELETE_TAKEN = `DELETE FROM step WHERE task = ? AND kind IN ('step', 'child')`;

const KEEP = `INSERT OR REPLACE INTO step (task, kind, name, value) VALUES (?, ?, ?, ?)`;

export function keepStep(
  tx: Tx,
  seq: number,
  kind: Step["kind"] | "feedback",
  name: string,
  value: Body | null,
): void {
  tx.run(KEEP, seq, kind, name, value);
}
