import { checkCount } from "./arguments.ts";
import { invalid } from "./errors.ts";
import { checkNames } from "./options.ts";
import { costFrom } from "./stage-cost.ts";
import { show } from "./show.ts";

/** Known by this, not by instanceof: a process may have loaded the library twice. */
const MARK = Symbol.for("dibs.each");

/** What a stage returns to have each item worked on by the next stage as a part of its own. */
export interface Each<Item = unknown> {
  readonly items: readonly Item[];
  /** What each of them takes of limits that have a unit; null: the next stage says it. */
  readonly costs: readonly number[] | null;
}

export interface EachOptions<Item = unknown> {
  /** What a part takes of limits that have a unit, in place of what the next stage says. */
  cost?: number | ((item: Item) => number) | undefined;
}

/** In a pipeline: one part of the run for each item, from the next stage on, until a stage joins them. */
export function each<Item>(items: readonly Item[], options: EachOptions<Item> = {}): Each<Item> {
  checkCount(arguments, "each(items, options)");
  checkNames(options, ["cost"], "each");
  if (!Array.isArray(items)) throw invalid(`each() takes an array; got ${show(items)}.`);
  const own = [...(items as Item[])];
  const { cost } = options;
  const costs = cost === undefined ? null : own.map((item) => costFrom(cost, item, "The cost of a part"));
  return Object.freeze({ items: own, costs, [MARK]: true });
}

export function isEach(value: unknown): value is Each {
  return typeof value === "object" && value !== null && MARK in value;
}
