import { governsGroups, resolvePolicy } from "../../../core/queue/policy.ts";
import type {
  ChildEntry,
  GroupEntry,
  KeyEntry,
  PartEntry,
  QueueEntry,
  RunEntry,
  StoreRecord,
  SubscriptionEntry,
} from "../../../core/record/record.ts";
import { formatPart } from "../../../core/run/run-part.ts";
import { storeRunSignal } from "../flows/run-signals.ts";
import type { LaneState } from "../limits/lanes.ts";
import { raiseLanes } from "../limits/move-lanes.ts";
import { COUNTED, HEAD_ONLY, HEADLESS } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";
import { importTask } from "./import-task.ts";

/** Writes one record of an export into an empty store, or one that is being filled. */
export function importRecord(tx: Tx, record: StoreRecord): void {
  switch (record.type) {
    case "queue":
      return importQueue(tx, record);
    case "group":
      return importGroup(tx, record);
    case "subscription":
      return importSubscription(tx, record);
    case "document":
      tx.run(INSERT_DOCUMENT, record.kind, record.name, record.value, record.dueAt ?? null);
      return;
    case "run":
      return importRun(tx, record);
    case "part":
      return importPart(tx, record);
    case "child":
      return importChild(tx, record);
    case "task":
      return importTask(tx, record);
    case "key":
      return importKey(tx, record);
    case "store":
    case "end":
  }
}

const INSERT_DOCUMENT = `INSERT INTO document (kind, name, value, due_at) VALUES (?, ?, ?, ?)`;
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

const INSERT_RUN = `
  INSERT INTO run (id, created_at, queue, pipeline, stages, under_way, counts, dead, state, ended_at, result)
  VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?)`;

/** Its dead tasks are counted with the tasks. */
function importRun(tx: Tx, record: RunEntry): void {
  const { queue, pipeline, stages, underWay, state, endedAt, result } = record;
  const { seq, createdAt } = tx.place(record.id)!;
  tx.run(
    ...([INSERT_RUN, seq, createdAt, queue, pipeline, JSON.stringify(stages), underWay] as const),
    record.counts ? JSON.stringify(record.counts) : null,
    ...([state ?? null, endedAt ?? null, result ?? null] as const),
  );
  for (const { name, value } of record.signals ?? []) storeRunSignal(tx, seq, name, value);
}

const INSERT_PART = `
  INSERT INTO run_part (task, run, created_at, stage, part, state, started_at, ended_at, awaits_join, result)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

function importPart(tx: Tx, record: PartEntry): void {
  const { stage, part, state, startedAt, endedAt, awaitsJoin } = record;
  const { seq, createdAt } = tx.place(record.id)!;
  tx.run(
    ...([INSERT_PART, seq, tx.place(record.run)!.seq, createdAt, stage, formatPart(part)] as const),
    ...([
      state ?? null,
      startedAt ?? null,
      endedAt ?? null,
      awaitsJoin ? 1 : 0,
      awaitsJoin?.result ?? null,
    ] as const),
  );
}

const INSERT_CHILD = `
  INSERT INTO child (task, parent, n, created_at, name, queue, state, ended_at, error, result)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

/** Before the tasks: a child is special. */
function importChild(tx: Tx, { id, parent, n, name, queue, ...end }: ChildEntry): void {
  const { seq, createdAt } = tx.place(id)!;
  const { state = null, endedAt = null, error, result = null } = end;
  tx.run(
    ...([INSERT_CHILD, seq, tx.place(parent)!.seq, n, createdAt, name, queue, state, endedAt] as const),
    ...([error ? JSON.stringify(error) : null, result] as const),
  );
}

const INSERT_KEY = `
  INSERT INTO idempotency (queue, key, task, created_at, forget_at, state) VALUES (?, ?, ?, ?, ?, ?)`;

function importKey(tx: Tx, { queue, key, task, forgetAt, state }: KeyEntry): void {
  const { seq, createdAt } = tx.place(task)!;
  tx.run(INSERT_KEY, tx.queues.getOrMake(queue).id, key, seq, createdAt, forgetAt ?? null, state ?? null);
}
