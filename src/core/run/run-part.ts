import type { Body } from "../task/task.ts";

/**
 * The parts of a run and their results. A run is split into parts when a stage returns `each()`. The plans of runs
 * (line-plan.ts, graph-plan.ts) join the results, and the engines store a part as text.
 */

export interface PartResult {
  stage: string;
  part: number[];
  result: Body | null;
}

/** The results of the parts, in their order, as a JSON array. Bytes become base64. */
export function gather(results: readonly (Body | null)[]): string {
  return `[${results.map(textOf).join(",")}]`;
}

export function textOf(result: Body | null): string {
  if (result === null) return "null";
  return typeof result === "string" ? result : JSON.stringify(Buffer.from(result).toString("base64"));
}

/** A part as text that sorts like parts do: each() makes fewer than 100,000 at once. */
export function formatPart(part: readonly number[]): string {
  return part.map((index) => String(index).padStart(5, "0")).join("/");
}

export function parsePart(text: string): number[] {
  return text === "" ? [] : text.split("/").map(Number);
}
