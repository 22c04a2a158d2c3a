import type { Port } from "../../core/port.ts";
import { NoSuchQueue } from "./problem.ts";

/**
 * Called when an answer is empty: 404 if that is because there is no such queue, whose name is then probably misspelt.
 * A queue that the caller may not see does not exist for it.
 */
export async function requireQueue(port: Port, queue: string): Promise<void> {
  const { items } = await port.queues({ queue, limit: 1 });
  if (items.length === 0) throw new NoSuchQueue(queue);
}
