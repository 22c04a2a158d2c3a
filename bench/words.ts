import { dibs } from "./dibs.ts";
import { median } from "./measure.ts";
import type { FigureResult } from "./results.ts";

type Measured = FigureResult["contenders"][number];

/** A figure as people read it: 84,000, 3.47. */
export function show(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(2);
}

/** Title of a scenario. It names the dibs that took part, unless that is the one on a file. */
export function titleOf(scenario: string, base: string): string {
  return base === dibs.name ? scenario : `${scenario}, ${base}`;
}

/** The lowest and the highest value of its rounds. */
export function spread({ values }: Measured): string {
  return `${show(Math.min(...values))} … ${show(Math.max(...values))}`;
}

/** How many times better the first contender is than another one: above 1 it is ahead. */
export function ahead({ better, contenders: [first] }: FigureResult, other: Measured): number {
  const [ours, theirs] = [median(first!.values), median(other.values)];
  return better === "more" ? ours / theirs : theirs / ours;
}
