import { correct } from "../../../core/queue/rate.ts";
import { correctGate } from "./gates.ts";
import { costOf } from "./lanes.ts";
import type { Held } from "../line/line.ts";
import { changeLane } from "./move-lanes.ts";
import { HEAD_ONLY } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** The real cost of an attempt is known now. */
export function correctCost(tx: Tx, { seq, queue, groupKey, startedAt }: Held, spent: number): void {
  const charge = { cost: costOf(tx, seq), spent, startedAt };
  correctGate(tx, queue, charge);
  if (groupKey === null || queue.lanes === HEAD_ONLY) return;
  changeLane(tx, queue, groupKey, (lane) => {
    lane.meter = correct(queue.policy.groups.rateLimit, lane.meter, charge, tx.now);
  });
}
