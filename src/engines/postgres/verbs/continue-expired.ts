import { continued } from "../../../core/queue/expired-to.ts";
import { type Headers, JSON_TYPE } from "../../../core/task/task.ts";
import { addChecked } from "./add.ts";
import { TASK_OF } from "../statements/look-up.ts";
import { fromColumns } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/** Adds expired tasks to the queue that their policy names (`expiredTo`). The store calls it after each verb. */

const EXPIRED = `
  SELECT seq, priority, content_type, headers, data, bytes FROM unnest($1::int8[]) AS wanted (task)
  CROSS JOIN ${TASK_OF("wanted")}`;

interface ExpiredRow {
  seq: number;
  priority: number;
  content_type: string | null;
  headers: string | null;
  data: string | null;
  bytes: Uint8Array | null;
}

/** After a verb: tasks that expired in it continue in the queue that their policy names. batch/execute.ts calls it. */
export async function continueExpired(tx: Tx): Promise<void> {
  const expired = tx.batch.expired.splice(0);
  const rows = await tx.all<ExpiredRow>(
    EXPIRED,
    expired.map(({ seq }) => seq),
  );
  const bySeq = new Map(rows.map((row) => [row.seq, row]));
  const tasks = expired.flatMap(({ seq, queue, why }) => {
    const row = bySeq.get(seq);
    const to = queue.policy.expiredTo;
    if (!row || to === null) return [];
    const task = {
      queue: queue.name,
      data: fromColumns(row.data, row.bytes)!,
      contentType: row.content_type ?? JSON_TYPE,
      headers: row.headers === null ? {} : (JSON.parse(row.headers) as Headers),
      priority: row.priority,
    };
    return [continued(task, to, why)];
  });
  if (tasks.length > 0) await addChecked(tx, tasks);
}
