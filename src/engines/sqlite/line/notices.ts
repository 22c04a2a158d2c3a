import type { Tx } from "../transaction/tx.ts";
import type { Held } from "./line.ts";

/** Notices to sessions about their claims. */

const INSERT_NOTICE = `INSERT INTO notice (session, kind, task, created_at, fence) VALUES (?, ?, ?, ?, ?)`;

/** Tells the session that holds a claim what happened to it. The session reads it with its next heartbeat. */
export function notify(tx: Tx, kind: "lost" | "cancel", task: Held): void {
  if (task.session === null) return;
  tx.noteNotice();
  tx.run(INSERT_NOTICE, task.session, kind, task.seq, task.createdAt, task.fence);
}
