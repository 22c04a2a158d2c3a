import Database from "better-sqlite3";
import type { Program } from "./program.ts";
import { pause } from "./stage.ts";

/**
 * Stops a process, but not inside a transaction: it would hold SQLite's lock, and block all others, until it continues
 * or is killed. That is so with every store on a file; these tests are about the lease.
 */
export async function freeze(program: Program, file: string): Promise<void> {
  for (;;) {
    program.signal("SIGSTOP");
    if (canWrite(file)) return;
    program.signal("SIGCONT");
    await pause(10);
  }
}

function canWrite(file: string): boolean {
  const db = new Database(file, { timeout: 200 });
  try {
    db.exec("BEGIN IMMEDIATE; ROLLBACK");
    return true;
  } catch (error) {
    if ((error as { code?: string }).code === "SQLITE_BUSY") return false;
    throw error;
  } finally {
    db.close();
  }
}
