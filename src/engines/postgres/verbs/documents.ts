import { fitting, ROW_BYTES } from "../../../core/answer/answer-size.ts";
import type { Paged } from "../../../core/answer/page.ts";
import { nameAfter, nextOf } from "../../../engine/cursor.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import type { DocumentChange, DueDocument, StoredDocument } from "../../../engine/documents.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { reportAdded } from "../../../engine/follow-up-adds.ts";
import { addTasks } from "./add.ts";
import { StaleRead } from "../connection/batch-conflicts.ts";
import { fanOut } from "./publish.ts";
import { fromText, toText } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/** The verbs `put` and `documents`, and the documents that `housekeep` returns. */

interface DocumentRow {
  value: string;
  due_at: number | null;
}

const FIND = `SELECT value, due_at FROM dibs.document WHERE kind = $1 AND name = $2 FOR UPDATE SKIP LOCKED`;
const INSERT = `
  INSERT INTO dibs.document (kind, name, value, due_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`;
const UPDATE = `UPDATE dibs.document SET value = $3, due_at = $4 WHERE kind = $1 AND name = $2`;
const DELETE = `DELETE FROM dibs.document WHERE kind = $1 AND name = $2`;

export async function put(tx: Tx, change: DocumentChange): Promise<{ before: string | null }> {
  const { kind, name, value, expect, dueAt = null, adds, event } = change;
  const row = await tx.lockOne<DocumentRow>(FIND, kind, name);
  const before = row ? fromText(row.value) : null;
  if (expect !== undefined && expect !== before) return { before };
  // First, because a refusal must leave nothing behind.
  if (adds) reportAdded(tx.batch.hint, await addTasks(tx, await fanOut(tx, adds)));
  if (row) {
    if (value === null) tx.send(DELETE, kind, name);
    else if (value !== before || dueAt !== row.due_at) tx.send(UPDATE, kind, name, toText(value), dueAt);
  } else if (value !== null) {
    const places = [{ kind: "document", of: kind, name }] as const;
    const { count } = await tx.insert(() => places, INSERT, kind, name, toText(value), dueAt);
    // There was no row to lock, and another transaction has inserted it.
    if (count === 0) throw new StaleRead();
    tx.noteWrite();
  }
  if (event) tx.events.announce({ ...event, at: tx.now });
  return { before };
}

const SIZES = `
  SELECT name, octet_length(value) AS size FROM dibs.document WHERE kind = $1 AND name > $2 ORDER BY name LIMIT $3`;
const NAMED = `SELECT name, value FROM dibs.document WHERE kind = $1 AND name = ANY ($2::text[]) ORDER BY name`;

export async function documents(
  tx: Tx,
  { kind, name: only, after, limit }: Verbs["documents"]["in"],
): Promise<Paged<StoredDocument>> {
  const start = nameAfter(after);
  if (only !== undefined) return { items: await readDocuments(tx, kind, [only]), next: null };
  // Sizes are read before values: what does not fit never leaves the server.
  const sizes = await tx.all<{ name: string; size: number }>(SIZES, kind, start, limit + 1);
  const page = fitting(sizes.slice(0, limit), ({ size }) => ROW_BYTES + size);
  return {
    items: await readDocuments(
      tx,
      kind,
      page.map(({ name }) => name),
    ),
    next: nextOf(sizes, page.length, ({ name }) => [name]),
  };
}

async function readDocuments(tx: Tx, kind: string, names: string[]): Promise<StoredDocument[]> {
  const rows = await tx.all<StoredDocument>(NAMED, kind, names);
  return rows.map(({ name, value }) => ({ name, value: fromText(value) }));
}

const DUE = `SELECT kind, name, value FROM dibs.document WHERE due_at <= $1 ORDER BY due_at, kind, name LIMIT $2`;
const NEXT = `SELECT min(due_at) AS at FROM dibs.document WHERE due_at > $1`;

/** Documents that are due, and when the next one is. `first`: the earliest due time, if it is known. */
export async function dueDocuments(
  tx: Tx,
  first: number | null,
): Promise<{ due: DueDocument[]; next: number | null }> {
  if (first === null || first > tx.now) return { due: [], next: first };
  return {
    due: (await tx.all<DueDocument>(DUE, tx.now, BOUNDS.due)).map((each) => ({
      ...each,
      value: fromText(each.value),
    })),
    next: (await tx.get<{ at: number | null }>(NEXT, tx.now))!.at,
  };
}
