/** The words around a search. */

import type { SearchPage } from "../../api/contract.ts";
import { revealed } from "../../format/value.ts";
import { countOf, showExact } from "../../format/number.ts";

/** "3 tasks. Searched the dead tasks of all queues: compared 1,204 of 5,000, up to emails." */
export function describeSearch({ searched, next }: SearchPage, found: number, looked: number): string {
  const { text, of, until, shortened } = searched;
  const far = next === null ? `all ${showExact(of)}` : `${showExact(looked)} of ${showExact(of)}`;
  const where = until === null ? "" : `, up to ${until.state} tasks of ${until.queue}`;
  const rest =
    shortened > 0 ? ` Of ${countOf(shortened, "large payload")}, only the beginning was compared.` : "";
  return `${countOf(found, "task")} found. ${text} Compared ${far}${where}.${rest}`;
}

/** Chooses a state, or takes the choice back. */
export function withState(q: string, state: string): string {
  const rest = q.replaceAll(/\s*\bstate:\S+/g, "").trim();
  return q.includes(`state:${state}`) ? rest : `state:${state} ${rest}`.trim();
}

/** One line of a payload. */
export function preview(data: unknown): string {
  const text = typeof data === "string" ? data : (JSON.stringify(data) ?? "");
  return revealed(text.slice(0, 200))
    .map((part) => part.text)
    .join("");
}
