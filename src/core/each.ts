import { checkCount } from "./arguments.ts";
import { invalid } from "./errors.ts";
import { show } from "./show.ts";

/** Known by this, not by instanceof: a process may have loaded the library twice. */
const MARK = Symbol.for("dibs.each");

/** What a stage returns to have each item worked on by the next stage as a part of its own. */
export interface Each<Item = unknown> {
  readonly items: readonly Item[];
}

/** In a pipeline: one part of the run for each item, from the next stage on, until a stage joins them. */
export function each<Item>(items: readonly Item[]): Each<Item> {
  checkCount(arguments, "each(items)");
  if (!Array.isArray(items)) throw invalid(`each() takes an array; got ${show(items)}.`);
  return Object.freeze({ items: [...(items as Item[])], [MARK]: true });
}

export function isEach(value: unknown): value is Each {
  return typeof value === "object" && value !== null && MARK in value;
}
