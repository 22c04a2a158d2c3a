import { type Body, type ClaimedTask, type Headers, JSON_TYPE } from "../../../core/task/task.ts";
import { type HandlerState, handlerStateFrom } from "../flows/steps.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** What a claim does for each task that it has taken, on the fast and the general path. */

export interface Taken {
  seq: number;
  fence: number;
  failures: number;
  rank: number;
  priority: number;
  createdAt: number;
  data: Body;
  contentType: string | null;
  headers: string | null;
  maxAttempts: number | null;
  groupKey: string | null;
  cost: number | null;
  left: HandlerState | null;
}

/** Makes the claimed task that the worker gets, and its event. */
export function handOver(tx: Tx, queue: Queue, worker: string, taken: Taken): ClaimedTask {
  const { seq, fence, failures, priority, createdAt, data, groupKey, cost } = taken;
  const attempt = failures + 1;
  const id = tx.id(createdAt, seq);
  tx.floors.tookFromLine(queue, taken);
  if (tx.events.listeners > 0)
    tx.events.announce({ type: "task.claimed", at: tx.now, queue: queue.name, taskId: id, worker, attempt });
  return {
    id,
    fence,
    queue: queue.name,
    data,
    contentType: taken.contentType ?? JSON_TYPE,
    headers: taken.headers === null ? {} : (JSON.parse(taken.headers) as Headers),
    attempt,
    maxAttempts: taken.maxAttempts ?? queue.policy.maxAttempts,
    priority,
    groupKey,
    createdAt,
    ...(cost !== null && { cost }),
    ...handlerStateFrom(tx, taken.left),
  };
}

/** For the tasks of one queue. */
export function countClaimed(tx: Tx, queue: Queue, tasks: readonly ClaimedTask[]): void {
  tx.counters.count(queue, "claimed", tasks.length);
  const flow = tx.counters.flow(queue);
  flow.claimed += tasks.length;
  // A task that was added in this batch may be younger than the batch's time.
  for (const { createdAt } of tasks) flow.waitMs += Math.max(0, tx.now - createdAt);
}
