import type { Dibs, WorkerSummary } from "../../api/dibs.ts";
import type { QueueStats } from "../../api/queue-types.ts";
import type { TaskInfo } from "../../api/task-handle.ts";

/** What `dibs top` shows: read from the store as a whole, once per interval. */
export interface Snapshot {
  at: Date;
  queues: QueueStats[];
  workers: WorkerSummary[];
  /** Claimed tasks, some of each queue. Their `worker` is the id of a worker. */
  running: TaskInfo[];
}

/** No terminal shows more rows, and no store should read more for it. */
const MOST_QUEUES = 200;
const MOST_RUNNING = 50;

export async function takeSnapshot(dibs: Dibs): Promise<Snapshot> {
  const [names, workers] = await Promise.all([dibs.queues(), dibs.workers()]);
  const queues = await Promise.all(names.slice(0, MOST_QUEUES).map(({ name }) => dibs.queue(name).stats()));
  const busy = queues.filter(({ depth }) => depth.claimed > 0);
  const pages = await Promise.all(
    busy.map(({ queue }) => dibs.queue(queue).tasks({ state: "claimed", limit: MOST_RUNNING })),
  );
  const at = new Date(dibs.port.clock.read().wall);
  return { at, queues, workers, running: pages.flatMap(({ tasks }) => tasks) };
}
