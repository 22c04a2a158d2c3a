import { type Newcomer, takePlaces } from "./add.ts";
import { freeGroup } from "./line.ts";
import type { Tx } from "./tx.ts";

interface InboxRow {
  n: number;
  seq: number | null;
  due: number | null;
  queue: number;
  group_key: string | null;
  created_at: number;
  priority: number;
  expires_at: number | null;
  idempotency_key: string | null;
}

/** Rows that one batch takes up: the next one goes on. */
const MOST = 1_000;

const TAKE_UP = `
  WITH taken AS (
    DELETE FROM dibs.inbox WHERE n = ANY (ARRAY (
      SELECT n FROM dibs.inbox ORDER BY n LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING n, task, due, queue, group_key)
  SELECT taken.n, task.seq, taken.due, taken.queue, coalesce(task.group_key, taken.group_key) AS group_key,
    task.created_at, task.priority, task.expires_at, task.idempotency_key
  FROM taken LEFT JOIN dibs.task ON task.seq = taken.task ORDER BY taken.n`;
const DELETE_TASKS = `DELETE FROM dibs.task WHERE seq = ANY ($1::int8[])`;

/**
 * Takes up what transactions of others have committed, before anything else of a batch: whoever was told of such a
 * commit finds what it brought. Within them nothing was locked that others need, such as a group's row.
 */
export async function takeUp(tx: Tx): Promise<void> {
  const rows = await tx.take<InboxRow>(TAKE_UP, MOST);
  const known = rows.filter((row) => tx.queueIfAny(row.queue));
  const lost = rows.filter((row) => !known.includes(row)).flatMap((row) => row.seq ?? []);
  // Their queue was dropped before they came.
  if (lost.length > 0) tx.send(DELETE_TASKS, lost);
  await lineUpAdded(
    tx,
    known.filter((row) => row.seq !== null),
  );
  for (const row of known) {
    if (row.seq === null) await freeGroup(tx, tx.queueOf(row.queue), row.group_key!);
  }
}

async function lineUpAdded(tx: Tx, rows: InboxRow[]): Promise<void> {
  const newcomers = rows.map((row): Newcomer => {
    const queue = tx.queueOf(row.queue);
    tx.flow(queue).added++;
    const taskId = tx.id(row.created_at, row.seq!);
    tx.announce({ type: "task.added", at: tx.now, queue: queue.name, taskId });
    return {
      index: -1,
      task: { queue: queue.name, priority: row.priority },
      seq: row.seq!,
      pos: row.seq!,
      due: row.due,
      queue,
      groupKey: row.group_key,
      key: row.idempotency_key,
      expiresAt: row.expires_at,
    };
  });
  if (newcomers.length > 0) await takePlaces(tx, newcomers);
}
