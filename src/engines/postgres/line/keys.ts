import type { EndState } from "../../../core/task/task.ts";
import { keyExpiresAt } from "../../../core/task/idempotency.ts";
import { lookUp } from "../statements/look-up.ts";
import { numbers } from "../statements/text.ts";
import type { InsertPlace } from "../transaction/insert-order.ts";
import type { Tx } from "../transaction/tx.ts";

/** Idempotency keys of tasks that exist. verbs/add.ts inserts them. */

interface TaskKey {
  /** The id of the queue. */
  queue: number;
  key: string;
  /** The task that has it. */
  task: number;
}

const LOCK = `
  SELECT ctid FROM dibs.idempotency WHERE queue = $1 AND key = $2 AND task = $3 OFFSET 0 FOR UPDATE NOWAIT`;
const END = `UPDATE dibs.idempotency SET forget_at = $4, state = $5 WHERE ctid = ANY (ARRAY (${LOCK}))`;

/** The task has ended, so the time starts after which its key expires. */
export function endKey(tx: Tx, { queue, key, task }: TaskKey, state: EndState): void {
  const ours = [queue, key, task];
  tx.sendAtOnce(END, [...ours, keyExpiresAt(tx.now), state], { sql: LOCK, values: ours });
}

const LOCK_ALL = `
  SELECT idempotency.place FROM (
    SELECT * FROM unnest($1::int4[], $2::text[], $3::int8[]) AS old (queue, key, task) ORDER BY queue, key COLLATE "C") AS old
  CROSS JOIN ${lookUp(
    "idempotency",
    `idempotency.queue = old.queue AND idempotency.key = old.key COLLATE "C" AND idempotency.task = old.task`,
    { columns: "ctid AS place", lock: "FOR UPDATE NOWAIT" },
  )}`;
const DELETE_ALL = `DELETE FROM dibs.idempotency WHERE ctid = ANY (ARRAY (${LOCK_ALL}))`;

/** The keys are free, unless other tasks have them by now. */
export function deleteKeys(tx: Tx, keys: readonly TaskKey[]): void {
  if (keys.length === 0) return;
  const values = [
    numbers(keys.map(({ queue }) => queue)),
    keys.map(({ key }) => key),
    numbers(keys.map(({ task }) => task)),
  ];
  tx.sendAtOnce(DELETE_ALL, values, { sql: LOCK_ALL, values });
}

/** For the order of inserts. */
export function keyPlaces(
  tasks: readonly { queue: { id: number }; key: string | null }[],
): () => InsertPlace[] {
  return () => tasks.map(({ queue, key }) => ({ kind: "key", of: queue.id, name: key! }));
}
