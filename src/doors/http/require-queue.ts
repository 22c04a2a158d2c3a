import type { Port } from "../../core/port.ts";
import { NoSuchQueue } from "./problem.ts";

/**
 * Called when an answer is empty. Answers 404 if the queue does not exist, because its name is then probably misspelt.
 * A queue that the caller may not see does not exist for the caller.
 */
export async function requireQueue(port: Port, queue: string): Promise<void> {
  const { items } = await port.queues({ queue, limit: 1 });
  if (items.length === 0) throw new NoSuchQueue(queue);
}
