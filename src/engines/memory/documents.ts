import { sizeOfDocument } from "../../core/answer/answer-size.ts";
import type { Paged } from "../../core/answer/page.ts";
import { nameAfter, pageOf } from "../../engine/cursor.ts";
import type { DocumentChange, DueDocument, StoredDocument } from "../../engine/documents.ts";
import type { Verbs } from "../../engine/engine.ts";
import { BOUNDS } from "../../engine/bounds.ts";
import { reportAdded } from "../../engine/follow-up-adds.ts";
import { addTasks } from "./add.ts";
import type { Model } from "./model.ts";
import { fanOut } from "./topics.ts";

/** The verbs `put` and `documents`, and the documents that `housekeep` returns. */

export function put(model: Model, change: DocumentChange): { before: string | null } {
  const { kind, name, value, expect, dueAt = null, adds, event } = change;
  const ofKind = model.documents.get(kind) ?? new Map();
  const before: string | null = ofKind.get(name)?.value ?? null;
  if (expect !== undefined && expect !== before) return { before };
  if (adds) reportAdded(model.hint, addTasks(model, fanOut(model, adds)));
  if (value === null) ofKind.delete(name);
  else ofKind.set(name, { value, dueAt });
  model.documents.set(kind, ofKind);
  if (event) model.announce({ ...event, at: model.now });
  return { before };
}

export function documents(
  model: Model,
  { kind, name, after, limit }: Verbs["documents"]["in"],
): Paged<StoredDocument> {
  const start = nameAfter(after);
  const found = [...(model.documents.get(kind) ?? [])]
    .filter(([each]) => (name === undefined ? each > start : each === name))
    .map(([each, { value }]) => ({ name: each, value }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  return pageOf(found, limit, { sizeOf: sizeOfDocument, keyOf: (each) => [each.name] });
}

/** Documents that are due, and the time until the next one is. */
export function dueDocuments(model: Model): { due: DueDocument[]; next: number | null } {
  const timed = [...model.documents].flatMap(([kind, ofKind]) =>
    [...ofKind].flatMap(([name, { value, dueAt }]) => (dueAt === null ? [] : [{ kind, name, value, dueAt }])),
  );
  timed.sort((a, b) => a.dueAt - b.dueAt || (`${a.kind} ${a.name}` < `${b.kind} ${b.name}` ? -1 : 1));
  const next = timed.find(({ dueAt }) => dueAt > model.now);
  return {
    due: timed
      .filter(({ dueAt }) => dueAt <= model.now)
      .slice(0, BOUNDS.due)
      .map(({ kind, name, value }) => ({ kind, name, value })),
    next: next ? next.dueAt - model.now : null,
  };
}
