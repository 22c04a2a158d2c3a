import type { EndState } from "../../../core/task/task.ts";
import { keyExpiresAt } from "../../../core/task/idempotency.ts";
import { lookUp } from "../statements/look-up.ts";
import { numbers } from "../statements/text.ts";
import type { InsertPlace } from "../transaction/insert-order.ts";
import type { Tx } from "../transaction/tx.ts";
import type { TransitionTask } from "./line.ts";

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
const IS_OURS = `ctid = ANY (ARRAY (${LOCK}))`;
const END = `UPDATE dibs.idempotency SET forget_at = $4, state = $5 WHERE ${IS_OURS}`;
const DELETE = `DELETE FROM dibs.idempotency WHERE ${IS_OURS}`;

/** The task has ended, so the time starts after which its key expires. */
export function endKey(tx: Tx, { queue, key, task }: TaskKey, state: EndState): void {
  const ours = [queue, key, task];
  tx.sendAtOnce(END, [...ours, keyExpiresAt(tx.now), state], { sql: LOCK, values: ours });
}

/** The key is free, unless another task has it by now. */
export function deleteKey(tx: Tx, { queue, key, task }: TaskKey): void {
  const values = [queue, key, task];
  tx.sendAtOnce(DELETE, values, { sql: LOCK, values });
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

/** As `deleteKey`, for those of many tasks that have one. */
export function deleteKeys(tx: Tx, tasks: readonly Pick<TransitionTask, "seq" | "queue" | "key">[]): void {
  const keyed = tasks.filter(({ key }) => key !== null);
  if (keyed.length === 0) return;
  const values = [
    numbers(keyed.map(({ queue }) => queue.id)),
    keyed.map(({ key }) => key!),
    numbers(keyed.map(({ seq }) => seq)),
  ];
  tx.sendAtOnce(DELETE_ALL, values, { sql: LOCK_ALL, values });
}

/** For the order of inserts. */
export function keyPlaces(
  tasks: readonly { queue: { id: number }; key: string | null }[],
): () => InsertPlace[] {
  return () => tasks.map(({ queue, key }) => ({ kind: "key", of: queue.id, name: key! }));
}
