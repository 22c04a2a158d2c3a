import { everyItem } from "../core/answer/every-item.ts";
import type { Port } from "../core/port.ts";
import type { WorkerRecord } from "../core/task/task.ts";

/** All live workers of a queue, for pools and alerts. */
export function workersOf(port: Port, queue: string): Promise<WorkerRecord[]> {
  return everyItem((page) => port.workers({ ...page, queue }));
}
