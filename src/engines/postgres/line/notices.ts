import type { Tx } from "../transaction/tx.ts";
import type { Held } from "./line.ts";

/** Writes notices for sessions about their claims: lost, timeout, cancel. */

const INSERT_NOTICE = `
  INSERT INTO dibs.notice (session, kind, task, created_at, fence) VALUES ($1, $2, $3, $4, $5)`;

/** Tells the session that holds a claim what happened to it. The session reads it with its next heartbeat. */
export function notify(tx: Tx, kind: "lost" | "cancel", task: Held): void {
  if (task.session === null) return;
  tx.batch.noteNotices();
  tx.send(INSERT_NOTICE, task.session, kind, task.seq, task.createdAt, task.fence);
}
