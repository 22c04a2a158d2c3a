import type { Verbs } from "../../../engine/engine.ts";
import { gateOf, hintLine, saveGate } from "../limits/gates.ts";
import { LaneChanges } from "../limits/lanes.ts";
import { HEAD_ONLY, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** The verb `unhold`: ends a hold of a group or a queue early. */

export function unhold(tx: Tx, { queue: name, groupKey: key }: Verbs["unhold"]["in"]): { lifted: boolean } {
  const queue = tx.queues.named(name);
  if (!queue) return { lifted: false };
  return { lifted: key === undefined ? unholdQueue(tx, queue) : unholdLane(tx, queue, key) };
}

function unholdQueue(tx: Tx, queue: Queue): boolean {
  const gate = gateOf(tx, queue);
  if (gate.heldUntil <= tx.now) return false;
  gate.heldUntil = 0;
  saveGate(tx, gate);
  hintLine(tx, queue);
  return true;
}

function unholdLane(tx: Tx, queue: Queue, key: string): boolean {
  if (queue.lanes === HEAD_ONLY) return false;
  const book = new LaneChanges(tx);
  const lane = book.lane(queue, key);
  if (lane.heldUntil <= tx.now) return false;
  lane.heldUntil = 0;
  book.fill(lane);
  book.save();
  return true;
}
