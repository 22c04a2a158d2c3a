import type { Queue } from "../transaction/queue-cache.ts";
import { newest } from "../statements/newest.ts";
import type { Tx } from "../transaction/tx.ts";

const FAILED_BY = `
  SELECT worker FROM dibs.attempt WHERE task = $1 AND outcome IN ('failed', 'timeout', 'lost', 'refused')
  ORDER BY fence DESC LIMIT $2`;
const LIVE_WORKERS = `
  SELECT session.worker FROM dibs.serving JOIN dibs.session ON ${newest("session", "serving.session")}
  WHERE serving.queue = $1 AND session.beat_at + session.lease > $2`;

/** A failed task is kept from the workers that failed it, where there is another one. */
export async function keptFrom(
  tx: Tx,
  queue: Queue,
  seq: number,
  failures: number,
): Promise<string[] | null> {
  if (failures === 0 || queue.policy.elsewhere <= 0) return null;
  let workers = tx.serving.get(queue.name);
  if (!workers) {
    const live = await tx.all<{ worker: string }>(LIVE_WORKERS, queue.name, tx.now);
    workers = live.map((row) => row.worker);
    tx.serving.set(queue.name, workers);
  }
  if (workers.length === 0) return null;
  // The failures that count: those since the task was added or redriven.
  const failed = await tx.all<{ worker: string }>(FAILED_BY, seq, failures);
  const avoid = [...new Set(failed.map((row) => row.worker))];
  return workers.some((worker) => !avoid.includes(worker)) ? avoid : null;
}
