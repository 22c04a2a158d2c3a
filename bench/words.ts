import type { FigureResult } from "./results.ts";

/** A figure as people read it: 84,000, 3.47. */
export function show(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(2);
}

/** How many times better the first contender is than another one: above 1 it is ahead. */
export function ahead({ better, contenders: [first] }: FigureResult, other: { median: number }): number {
  return better === "more" ? first!.median / other.median : other.median / first!.median;
}
