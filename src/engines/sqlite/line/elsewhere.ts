import { FAILURES_SQL } from "../../../core/task/attempt-outcome.ts";
import { workersToAvoid } from "../../../core/task/retry.ts";
import type { LiveWorker } from "../transaction/batch-state.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** Retry elsewhere: which workers a failed task avoids, and which workers are alive to take it instead. */

const FAILED_BY = `
  SELECT worker FROM attempt WHERE task = ? AND outcome IN (${FAILURES_SQL})
  ORDER BY fence DESC LIMIT 0 + ?`;
const LIVE_WORKERS = `
  SELECT session.id, session.worker FROM serving CROSS JOIN session ON session.id = serving.session
  WHERE serving.queue = ? AND session.heartbeat_at + session.lease > ?`;

/** The workers that it avoids for a while; null: any worker may claim it at once. */
export function avoidedBy(tx: Tx, queue: Queue, seq: number, failures: number): string[] | null {
  if (queue.policy.elsewhere <= 0) return null;
  const servers = serversOf(tx, queue);
  if (servers.length === 0) return null;
  // Only failures since the task was added or redriven count: these are the last `failures` failed attempts.
  const failedBy = tx.all<{ worker: string }>(FAILED_BY, seq, failures).map((row) => row.worker);
  return workersToAvoid(
    failedBy,
    servers.map(({ worker }) => worker),
  );
}

/** Whether the worker of this session is alive and serves the queue. */
export function serves(tx: Tx, queue: Queue, session: number): boolean {
  return serversOf(tx, queue).some(({ id }) => id === session);
}

function serversOf(tx: Tx, queue: Queue): readonly LiveWorker[] {
  let servers = tx.batch.workers.get(queue.name);
  if (!servers) {
    servers = tx.all<LiveWorker>(LIVE_WORKERS, queue.name, tx.awake);
    tx.batch.workers.set(queue.name, servers);
  }
  return servers;
}
