import { byteLength, isLarger, LIMITS } from "../input/limits.ts";
import type { Body, TaskRecord } from "../task/task.ts";

/** How a list shows payloads and results: large ones shortened, or all in full. */
export type Payloads = "preview" | "full";

/**
 * A task as a list shows it, for the memory engine. SQLite and PostgreSQL cut in SQL by the same rule, and never read
 * the rest.
 */
export function previewTask(task: TaskRecord): TaskRecord {
  const { data, result } = task;
  return {
    ...task,
    data: beginningOf(data)!,
    result: beginningOf(result),
    ...truncatedFrom(sizeOf(data), sizeOf(result)),
  };
}

/** Marks a task whose payload or result was cut, with the full size in bytes. */
export function truncatedFrom(data: number, result: number): Pick<TaskRecord, "truncated"> {
  const [isData, isResult] = [data > LIMITS.previewAbove, result > LIMITS.previewAbove];
  if (!isData && !isResult) return {};
  return { truncated: { ...(isData && { data }), ...(isResult && { result }) } };
}

function sizeOf(body: Body | null): number {
  return body === null ? 0 : byteLength(body);
}

function beginningOf(body: Body | null): Body | null {
  if (body === null || !isLarger(body, LIMITS.previewAbove)) return body;
  if (typeof body !== "string") return body.slice(0, LIMITS.preview);
  // Cut by characters: some take two UTF-16 units.
  return Array.from(body.slice(0, 2 * LIMITS.preview))
    .slice(0, LIMITS.preview)
    .join("");
}
