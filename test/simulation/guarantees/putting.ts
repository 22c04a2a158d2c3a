import { isDeepStrictEqual } from "node:util";
import type { Op, Outcome } from "../../../src/engine/engine.ts";
import { answer } from "../known.ts";
import { checkAdded, refusalOfAdds } from "./adding.ts";
import type { Books } from "./books.ts";
import { expectedAdds } from "./publishing.ts";
import type { Turn } from "./turn.ts";
import { expectedPage } from "./paging.ts";
import { check } from "./violation.ts";

/** Of several processes that read the same document one changes it. Its tasks are added with that, or not at all. */
export function checkPut(turn: Turn, op: Op<"put">, outcome: Outcome<"put">): void {
  const { documents } = turn.books;
  const name = `${op.kind} ${op.name}`;
  const before = documents.get(name)?.value ?? null;
  const isOvertaken = op.expect !== undefined && op.expect !== before;
  const adds = isOvertaken ? [] : expectedAdds(turn.books, op.adds ?? []);
  const expected = refusalOfAdds(turn, adds);
  const refusal = "refused" in outcome ? outcome.refused.code : undefined;
  check(refusal === expected, `put was refused with ${refusal}; it should be with ${expected}`);
  if ("refused" in outcome) return;
  check(outcome.ok.before === before, () => `put found ${outcome.ok.before}; there was ${before}`);
  if (isOvertaken) return;
  checkAdded(turn, adds, null);
  if (op.value === null) documents.delete(name);
  else documents.set(name, { kind: op.kind, name: op.name, value: op.value, dueAt: op.dueAt ?? null });
}

export function checkDocuments(books: Books, op: Op<"documents">, outcome: Outcome<"documents">): void {
  const rows = [...books.documents.values()]
    .filter(({ kind, name }) => kind === op.kind && (op.name === undefined || name === op.name))
    .map(({ name, value }) => ({ key: name, item: { name, value } }))
    .sort((a, b) => (a.key < b.key ? -1 : 1));
  const page = op.name === undefined ? op : { limit: 1 };
  const expected = expectedPage(rows, page);
  check(
    isDeepStrictEqual(answer<"documents">(outcome), expected),
    () => `documents are ${JSON.stringify(outcome)}; they should be ${JSON.stringify(expected)}`,
  );
}

/** Returned when they are due, and not before. */
export function checkDue(books: Books, outcome: Outcome<"housekeep">): void {
  const { due, now } = answer<"housekeep">(outcome);
  const expected = [...books.documents.values()]
    .filter(({ dueAt }) => dueAt !== null && dueAt <= books.now)
    .sort((a, b) => a.dueAt! - b.dueAt! || (a.name < b.name ? -1 : 1))
    .map(({ kind, name, value }) => ({ kind, name, value }));
  check(now === books.now, `housekeep says that it is ${now}; it is ${books.now}`);
  check(
    isDeepStrictEqual(due, expected),
    () => `due are ${JSON.stringify(due)}; they should be ${JSON.stringify(expected)}`,
  );
}
