import type { Verbs } from "../../../engine/engine.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { fillLanes } from "../limits/lane-line.ts";
import type { Tx } from "../transaction/tx.ts";

/** The verb `unhold`: ends a hold of a group or a queue early. */

export async function unhold(
  tx: Tx,
  { queue: name, groupKey: key }: Verbs["unhold"]["in"],
): Promise<{ lifted: boolean }> {
  const queue = tx.queues.named(name);
  if (!queue?.limited) return { lifted: false };
  return { lifted: await (key === undefined ? unholdQueue(tx, queue) : unholdLane(tx, queue, key)) };
}

async function unholdQueue(tx: Tx, queue: Queue): Promise<boolean> {
  const gate = await tx.limits.gate(queue);
  if (gate.heldUntil <= tx.now) return false;
  gate.heldUntil = 0;
  const { ready } = await tx.counters.depth(queue);
  if (ready > 0) tx.batch.hintReady(queue, ready);
  return true;
}

async function unholdLane(tx: Tx, queue: Queue, key: string): Promise<boolean> {
  const lane = await tx.limits.lane(queue, key);
  if (lane.heldUntil <= tx.now) return false;
  lane.heldUntil = 0;
  await fillLanes(tx, queue, [key]);
  return true;
}
