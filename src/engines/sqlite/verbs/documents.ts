import { sizeOfDocument } from "../../../core/answer/answer-size.ts";
import type { Paged } from "../../../core/answer/page.ts";
import { nameAfter, nextOf } from "../../../engine/cursor.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import type { DocumentChange, DueDocument, StoredDocument } from "../../../engine/documents.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { reportAdded } from "../../../engine/follow-up-adds.ts";
import { addTasks } from "./add.ts";
import { fanOut } from "./publish.ts";
import { readPage } from "../statements/read-page.ts";
import type { Tx } from "../transaction/tx.ts";

/** The verbs `put` and `documents`, and the documents that `housekeep` returns. */

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
  // First, because a refusal must leave nothing behind.
  if (adds) reportAdded(tx.batch.hint, addTasks(tx, fanOut(tx, adds)));
  if (value === null) tx.run(DELETE, kind, name);
  // An equal value is not written again: every commit wakes the other processes.
  else if (value !== before || dueAt !== row!.due_at) tx.run(PUT, kind, name, value, dueAt);
  if (event) tx.announce({ ...event, at: tx.now });
  return { before };
}

const ONE = `SELECT name, value FROM document WHERE kind = ? AND name = ?`;
const NAMES = `SELECT name FROM document WHERE kind = ? AND name > ? ORDER BY name LIMIT 0 + ?`;

export function documents(
  tx: Tx,
  { kind, name: only, after, limit }: Verbs["documents"]["in"],
): Paged<StoredDocument> {
  const start = nameAfter(after);
  if (only !== undefined) return { items: tx.all<StoredDocument>(ONE, kind, only), next: null };
  const names = tx.all<{ name: string }>(NAMES, kind, start, limit + 1);
  const read = ({ name }: { name: string }): StoredDocument => tx.get<StoredDocument>(ONE, kind, name)!;
  const items = readPage(names.slice(0, limit), read, sizeOfDocument);
  return { items, next: nextOf(names, items.length, ({ name }) => [name]) };
}

const FIRST = `SELECT min(due_at) AS at FROM document WHERE due_at IS NOT NULL`;
const DUE = `SELECT kind, name, value FROM document WHERE due_at <= ? ORDER BY due_at, kind, name LIMIT 0 + ?`;
const NEXT = `SELECT min(due_at) AS at FROM document WHERE due_at > ?`;

/** Documents that are due, and when the next one is. */
export function dueDocuments(tx: Tx): { due: DueDocument[]; next: number | null } {
  const { at } = tx.get<{ at: number | null }>(FIRST)!;
  if (at === null || at > tx.now) return { due: [], next: at };
  return {
    due: tx.all<DueDocument>(DUE, tx.now, BOUNDS.due),
    next: tx.get<{ at: number | null }>(NEXT, tx.now)!.at,
  };
}
