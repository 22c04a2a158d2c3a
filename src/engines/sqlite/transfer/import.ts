import { governsGroups, resolvePolicy } from "../../../core/queue/policy.ts";
import type { GroupEntry, QueueEntry, StoreRecord, SubscriptionEntry } from "../../../core/record/record.ts";
import { rankOf } from "../../../core/task/task.ts";
import { type ImportTarget, rowsOf } from "../../../engine/import-rows.ts";
import type { LaneState } from "../limits/lanes.ts";
import { raiseLanes } from "../limits/move-lanes.ts";
import { COUNTED, HEAD_ONLY, HEADLESS } from "../transaction/queue-cache.ts";
import { insertRow } from "../statements/insert-row.ts";
import type { Tx } from "../transaction/tx.ts";
import { importTask } from "./import-tasks.ts";

/** Writes one record of an export into an empty store, or one that is being filled. */
export function importRecord(tx: Tx, record: StoreRecord): void {
  for (const [table, row] of rowsOf(targetOf(tx), record)) insertRow(tx, table, row);
  if (record.type === "queue") importQueue(tx, record);
  if (record.type === "group") importGroup(tx, record);
  if (record.type === "subscription") importSubscription(tx, record);
  if (record.type === "task") importTask(tx, record);
}

function targetOf(tx: Tx): ImportTarget {
  return {
    place: (id) => tx.place(id)!,
    queueId: (name) => tx.queues.getOrMake(name).id,
    taskColumns: (record) => ({ priority: 0 - rankOf(record) }),
    verifyingColumns: ({ blocksGroup = false, verifying }) => ({
      asked: verifying!.asked === undefined ? null : tx.place(verifying!.asked)!.seq,
      ...{ blocks_group: blocksGroup, special: 0 },
    }),
    errorText: (error) => JSON.stringify(error),
  };
}

const SET_CREATED = `UPDATE queue SET created_at = ? WHERE id = ?`;
const INSERT_GATE = `INSERT INTO gate (queue, meter, held_until, wake_at, reviewed) VALUES (?, ?, ?, ?, ?)`;
const INSERT_FLOW = `
  INSERT INTO flow (queue, slot, added, claimed, done, failed, wait_ms, service_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;

function importQueue(tx: Tx, record: QueueEntry): void {
  const { name, policy, createdAt, meter, heldUntil, wakeAt, reviewed, flow = [] } = record;
  const queue = tx.queues.getOrMake(name);
  const hasGate = [meter, heldUntil, wakeAt, reviewed].some((value) => value !== undefined);
  Object.assign(queue, {
    ...{ named: policy, policy: resolvePolicy(policy), declared: record.declared ?? null, createdAt },
    ...{ paused: record.paused ?? false, gate: hasGate },
    lanes: governsGroups(resolvePolicy(policy)) ? COUNTED : HEAD_ONLY,
  });
  tx.queues.store(queue);
  tx.run(SET_CREATED, createdAt, queue.id);
  const tallies = meter ? JSON.stringify(meter) : null;
  if (hasGate) tx.run(INSERT_GATE, queue.id, tallies, heldUntil ?? null, wakeAt ?? null, reviewed ?? null);
  for (const { slot, added, claimed, done, failed, waitMs, serviceMs } of flow)
    tx.run(INSERT_FLOW, queue.id, slot, added, claimed, done, failed, waitMs, serviceMs);
}

const INSERT_LANE = `INSERT INTO lane (queue, group_key, state) VALUES (?, ?, ?)`;
const INSERT_WAKE = `INSERT INTO wake (at, queue, group_key) VALUES (?, ?, ?)`;

/** Before its tasks, which count as heads. */
function importGroup(tx: Tx, { queue: name, key, meter, heldUntil, wakeAt }: GroupEntry): void {
  const queue = tx.queues.getOrMake(name);
  raiseLanes(tx, queue, HEADLESS);
  const state: LaneState = {
    holders: 0,
    ...(meter && { meter }),
    ...(heldUntil !== undefined && { heldUntil }),
    ...(wakeAt !== undefined && { wakeAt }),
  };
  tx.run(INSERT_LANE, queue.id, key, JSON.stringify(state));
  if (wakeAt !== undefined) tx.run(INSERT_WAKE, wakeAt, queue.id, key);
}

const INSERT_SUBSCRIPTION = `
  INSERT INTO subscription (id, pattern, group_name, queue, created_at)
  SELECT subscribed + 1, ?, ?, ?, ? FROM store`;
const COUNT_SUBSCRIPTION = `UPDATE store SET subscribed = subscribed + 1`;

function importSubscription(tx: Tx, { pattern, group, queue, createdAt }: SubscriptionEntry): void {
  tx.run(INSERT_SUBSCRIPTION, pattern, group, tx.queues.getOrMake(queue).id, createdAt);
  tx.run(COUNT_SUBSCRIPTION);
}
