import { checkCount } from "../input/arguments.ts";
import { invalid } from "../errors/errors.ts";
import { checkNames } from "../input/options.ts";
import { costFrom } from "./stage-cost.ts";
import { show } from "../errors/show.ts";

/** Recognised by this mark, not by instanceof: a process may load the library twice. */
const MARK = Symbol.for("dibs.each");

/** What a stage returns so that the next stage works on each item as a separate part. */
export interface Each<Item = unknown> {
  readonly items: readonly Item[];
  /** The cost of each item in rate limits with a unit; null: the next stage defines it. */
  readonly costs: readonly number[] | null;
}

export interface EachOptions<Item = unknown> {
  /** The cost of a part in rate limits with a unit. Overrides the cost of the next stage. */
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
