import type { Headers, NewTask } from "../task/task.ts";

/**
 * Tasks that expire, or that a full queue drops, can continue in another queue (the policy's `expiredTo`): as new tasks
 * with the same payload, headers and priority, and with two headers that say where they come from and why.
 */
export const EXPIRED_HEADERS = { from: "dibs-expired-from", why: "dibs-expired-why" } as const;

/** Its time-to-live passed, or it was the oldest of a queue that was full. */
export type ExpiryReason = "ttl" | "dropped";

/** What all engines know of a task that has expired. */
export interface ExpiredTask {
  queue: string;
  data: NewTask["data"];
  contentType: string;
  headers: Headers;
  priority: number;
}

export function continued(
  { queue, data, contentType, headers, priority }: ExpiredTask,
  to: string,
  why: ExpiryReason,
): NewTask {
  const { from, why: reason } = EXPIRED_HEADERS;
  return { queue: to, data, contentType, priority, headers: { ...headers, [from]: queue, [reason]: why } };
}
