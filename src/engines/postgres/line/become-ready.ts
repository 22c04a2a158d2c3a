import { keptFrom } from "./elsewhere.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

const INSERT_READY = `
  INSERT INTO dibs.ready (queue, rank, pos, task, failures, special) VALUES ($1, $2, $3, $4, $5, $6)`;
const INSERT_KEPT = `
  INSERT INTO dibs.kept (queue, rank, pos, task, failures, special, until, avoid)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`;

/** One that takes its place in line. */
export interface ReadyTask {
  seq: number;
  queue: Queue;
  rank: number;
  pos: number;
  failures: number;
  special: boolean;
}

/** In line, or kept for a while from those who failed it. */
export async function becomeReady(tx: Tx, task: ReadyTask): Promise<void> {
  const { queue, rank, pos, seq, failures, special } = task;
  const avoid = await keptFrom(tx, queue, seq, failures);
  if (avoid) {
    const until = tx.now + queue.policy.elsewhere;
    tx.send(INSERT_KEPT, queue.id, rank, pos, seq, failures, special, until, JSON.stringify(avoid));
    tx.floors.lowerTime("kept", until);
  } else {
    tx.send(INSERT_READY, queue.id, rank, pos, seq, failures, special);
  }
  tx.floors.lower(queue, rank, pos);
  tx.counters.count(queue, "ready", 1);
  tx.batch.hintReady(queue);
}
