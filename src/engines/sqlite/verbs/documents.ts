import { BOUNDS, type DocumentChange, type DueDocument, type Verbs } from "../../../engine/engine.ts";
import { reportAdded } from "../../../engine/follow-up-adds.ts";
import { addTasks } from "./add.ts";
import { fanOut } from "./publish.ts";
import type { Tx } from "../transaction/tx.ts";

interface DocumentRow {
  value: string;
  due_at: number | null;
}

const FIND = `SELECT value, due_at FROM document WHERE kind = ? AND name = ?`;
const PUT = `INSERT OR REPLACE INTO document (kind, name, value, due_at) VALUES (?, ?, ?, ?)`;
const DELETE = `DELETE FROM document WHERE kind = ? AND name = ?`;

export function put(tx: Tx, change: DocumentChange): { before: string | null } {
  const { kind, name, value, expect, dueAt = null, adds, event } = change;
  const row = tx.get<DocumentRow>(FIND, kind, name);
  const before = row?.value ?? null;
  if (expect !== undefined && expect !== before) return { before };
  // First: what is refused must leave nothing behind.
  if (adds) reportAdded(tx.hint, addTasks(tx, fanOut(tx, adds)));
  if (value === null) tx.run(DELETE, kind, name);
  // The same again is not written: every commit wakes the other processes.
  else if (value !== before || dueAt !== row!.due_at) tx.run(PUT, kind, name, value, dueAt);
  if (event) tx.announce({ ...event, at: tx.now });
  return { before };
}

const ONE = `SELECT name, value FROM document WHERE kind = ? AND name = ?`;
const ALL = `SELECT name, value FROM document WHERE kind = ? ORDER BY name`;

export function documents(tx: Tx, kind: string, name: string | undefined): Verbs["documents"]["out"] {
  return name === undefined ? tx.all(ALL, kind) : tx.all(ONE, kind, name);
}

const FIRST = `SELECT min(due_at) AS at FROM document WHERE due_at IS NOT NULL`;
const DUE = `SELECT kind, name, value FROM document WHERE due_at <= ? ORDER BY due_at, kind, name LIMIT 0 + ?`;
const NEXT = `SELECT min(due_at) AS at FROM document WHERE due_at > ?`;

/** Those whose time has come, and when that of the next does. */
export function dueDocuments(tx: Tx): { due: DueDocument[]; next: number | null } {
  const { at } = tx.get<{ at: number | null }>(FIRST)!;
  if (at === null || at > tx.now) return { due: [], next: at };
  return {
    due: tx.all<DueDocument>(DUE, tx.now, BOUNDS.due),
    next: tx.get<{ at: number | null }>(NEXT, tx.now)!.at,
  };
}
