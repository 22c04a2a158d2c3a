import { FAILURES_SQL } from "../../../core/task/attempt-outcome.ts";
import { workersToAvoid } from "../../../core/task/retry.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { newest } from "../statements/newest.ts";
import type { Tx } from "../transaction/tx.ts";

/** Decides whether a failed task is offered to other workers first. enter-line.ts calls it. */

const FAILED_BY = `
  SELECT worker FROM dibs.attempt WHERE task = $1 AND outcome IN (${FAILURES_SQL})
  ORDER BY fence DESC LIMIT $2`;
const LIVE_WORKERS = `
  SELECT session.worker FROM dibs.serving JOIN dibs.session ON ${newest("session", "serving.session")}
  WHERE serving.queue = $1 AND session.heartbeat_at + session.lease > $2`;

/** The workers that a failed task avoids for a while: those that failed it, if another one serves its queue. */
export async function avoidedBy(
  tx: Tx,
  { queue, seq, failures }: { queue: Queue; seq: number; failures: number },
): Promise<string[] | null> {
  if (failures === 0 || queue.policy.elsewhere <= 0) return null;
  let workers = tx.batch.workers.get(queue.name);
  if (!workers) {
    const live = await tx.all<{ worker: string }>(LIVE_WORKERS, queue.name, tx.now);
    workers = live.map((row) => row.worker);
    tx.batch.workers.set(queue.name, workers);
  }
  if (workers.length === 0) return null;
  const failed = await tx.all<{ worker: string }>(FAILED_BY, seq, failures);
  return workersToAvoid(
    failed.map((row) => row.worker),
    workers,
  );
}
