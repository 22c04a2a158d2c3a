import { continued } from "../../../core/queue/expired-to.ts";
import { type Body, type Headers, JSON_TYPE } from "../../../core/task/task.ts";
import { addChecked } from "./add.ts";
import type { Tx } from "../transaction/tx.ts";

/** Adds expired tasks to the queue that their policy names (`expiredTo`). The store calls it after each verb. */

const EXPIRED = `SELECT priority, content_type, headers, data FROM task WHERE seq = ?`;

interface ExpiredRow {
  priority: number;
  content_type: string | null;
  headers: string | null;
  data: Body;
}

/** After a verb: tasks that expired in it continue in the queue that their policy names. batch/store.ts calls it. */
export function continueExpired(tx: Tx): void {
  for (const { seq, queue, why } of tx.batch.expired.splice(0)) {
    const row = tx.get<ExpiredRow>(EXPIRED, seq);
    const to = queue.policy.expiredTo;
    if (!row || to === null) continue;
    const headers = row.headers === null ? {} : (JSON.parse(row.headers) as Headers);
    const task = {
      queue: queue.name,
      data: row.data,
      contentType: row.content_type ?? JSON_TYPE,
      headers,
      priority: row.priority,
    };
    addChecked(tx, [continued(task, to, why)]);
  }
}
