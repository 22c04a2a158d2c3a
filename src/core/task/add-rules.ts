import { isLarger, queueFull, queueFullOfBytes, tooLarge } from "../input/limits.ts";
import type { QueuePolicy } from "../queue/policy.ts";
import { isGathered, type RunTask } from "../run/run.ts";
import { type DepthByState, type Headers, JSON_TYPE, type NewTask } from "./task.ts";

/** What every engine checks before it adds tasks, and how it stores their defaults. */

type Adding = NewTask | RunTask;

export function checkPayloads(
  tasks: readonly Adding[],
  policyOf: (queue: string) => Pick<QueuePolicy, "maxPayload">,
): void {
  for (const [index, task] of tasks.entries()) {
    const { maxPayload } = policyOf(task.queue);
    if (isGathered(task) || !isLarger(task.data, maxPayload)) continue;
    const what = tasks.length > 1 ? `The payload of task ${index}` : "The payload";
    throw tooLarge(what, task.data, maxPayload, task.queue);
  }
}

/** The tasks that an add really creates: of those with the same key only the first, and only if the key is free. */
export function countNew<Task extends Adding>(
  tasks: readonly Task[],
  isKeyTaken: (task: Task) => boolean,
): Map<string, number> {
  const counts = new Map<string, number>();
  const seen = new Set<string>();
  for (const task of tasks) {
    if (task.idempotencyKey !== undefined) {
      const name = JSON.stringify([task.queue, task.idempotencyKey]);
      if (seen.has(name) || isKeyTaken(task)) continue;
      seen.add(name);
    }
    counts.set(task.queue, (counts.get(task.queue) ?? 0) + 1);
  }
  return counts;
}

/** Tasks that are claimed, parked or in verification do not count: workers have begun with them. */
export function checkDepth(queue: string, depth: DepthByState, adding: number, maxDepth: number): void {
  const pending = depth.ready + depth.waiting + depth.scheduled;
  if (pending + adding > maxDepth) throw queueFull(queue, pending, adding, maxDepth);
}

/** Whether a queue limits how many tasks or bytes it stores. Adds to it take the general path. */
export function isBounded({ maxDepth, maxBytes }: QueuePolicy): boolean {
  return maxDepth !== null || maxBytes !== null;
}

/** Whether a full queue accepts new tasks and drops old ones for them. */
export function dropsOldest(policy: QueuePolicy): boolean {
  return policy.overflow === "drop-oldest" && isBounded(policy);
}

export function checkBytes(queue: string, tasks: readonly Adding[], stored: number, maxBytes: number): void {
  const adding = tasks.reduce(
    (sum, task) => (task.queue === queue && !isGathered(task) ? sum + sizeOf(task.data) : sum),
    0,
  );
  if (stored + adding > maxBytes) throw queueFullOfBytes(queue, stored, adding, maxBytes);
}

export function sizeOf(data: NewTask["data"]): number {
  return Buffer.byteLength(data);
}

/** How many tasks a queue above maxDepth drops. */
export function surplusOf({ ready, waiting, scheduled }: DepthByState, { maxDepth }: QueuePolicy): number {
  return maxDepth === null ? 0 : Math.max(0, ready + waiting + scheduled - maxDepth);
}

/** The content type as it is stored: null for JSON. */
export function storedContentType({ contentType }: Pick<NewTask, "contentType">): string | null {
  return contentType === undefined || contentType === JSON_TYPE ? null : contentType;
}

/** The headers as they are stored: JSON, or null without headers. */
export function storedHeaders({ headers }: Pick<NewTask, "headers">): string | null {
  if (headers === undefined) return null;
  // The copies of a published message share their headers, so the last text is used again.
  if (headers !== last.headers) last = { headers, text: JSON.stringify(headers) };
  return last.text === "{}" ? null : last.text;
}

let last: { headers: Headers | undefined; text: string } = { headers: undefined, text: "" };
