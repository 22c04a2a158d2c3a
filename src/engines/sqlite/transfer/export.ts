import type { Flow } from "../../../core/queue/flow.ts";
import type { QueueEntry, StoreRecord } from "../../../core/record/record.ts";
import type { Body, TaskError } from "../../../core/task/task.ts";
import {
  type ChildRow,
  childEntry,
  type GateRow,
  gateState,
  headerOf,
  type KeyRow,
  keyEntry,
  type PartRow,
  parsed,
  partEntry,
  present,
  runEntry,
} from "../../../engine/export-rows.ts";
import { bodyFrom } from "../statements/body.ts";
import { stateFrom } from "../limits/lanes.ts";
import { signalsOfRun } from "../flows/run-signals.ts";
import type { RunRow } from "../flows/runs.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";
import { exportTasks } from "./export-tasks.ts";

/**
 * Everything in the store, inside a reading transaction; without the last record. `paused`: the queues that a move has
 * paused.
 */
export function* exportStore(tx: Tx, id: string | null, paused: readonly string[]): Generator<StoreRecord> {
  yield headerOf(id, { store: tx.salt, now: tx.now, seq: tx.seq, fence: tx.fence });
  const byMove = new Set(paused);
  for (const queue of tx.queues.all) yield queueEntry(tx, queue, queue.paused && !byMove.has(queue.name));
  yield* exportGroups(tx);
  yield* exportSubscriptions(tx);
  yield* exportDocuments(tx);
  yield* exportRuns(tx);
  yield* exportParts(tx);
  yield* exportChildren(tx);
  yield* exportTasks(tx);
  yield* exportKeys(tx);
}

const GATE = `SELECT meter, held_until, wake_at, reviewed FROM gate WHERE queue = ?`;
const FLOW = `
  SELECT slot, added, claimed, done, failed, wait_ms AS waitMs, service_ms AS serviceMs FROM flow WHERE queue = ? ORDER BY slot`;

function queueEntry(tx: Tx, queue: Queue, paused: boolean): QueueEntry {
  const gate = tx.get<GateRow & { reviewed: string | null }>(GATE, queue.id);
  const flow = tx.all<Flow & { slot: number }>(FLOW, queue.id);
  return {
    ...{ type: "queue", name: queue.name, policy: queue.named },
    ...present({ declared: queue.declared }),
    ...(paused && { paused: true as const }),
    createdAt: queue.createdAt,
    ...(gate && { ...gateState(gate), ...present({ reviewed: gate.reviewed }) }),
    ...(flow.length > 0 && { flow }),
  };
}

const LANES = `SELECT queue, group_key, state FROM lane WHERE state IS NOT NULL ORDER BY queue, group_key`;

function* exportGroups(tx: Tx): Generator<StoreRecord> {
  for (const row of tx.each<{ queue: number; group_key: string; state: string }>(LANES)) {
    const { meter, heldUntil, wakeAt } = stateFrom(row.state);
    if (meter === undefined && heldUntil === undefined && wakeAt === undefined) continue;
    const queue = tx.queues.of(row.queue).name;
    yield { type: "group", queue, key: row.group_key, ...present({ meter, heldUntil, wakeAt }) };
  }
}

const SUBSCRIPTIONS = `SELECT pattern, group_name, queue, created_at FROM subscription ORDER BY id`;

function* exportSubscriptions(tx: Tx): Generator<StoreRecord> {
  type Row = { pattern: string; group_name: string; queue: number; created_at: number };
  for (const { pattern, group_name: group, queue, created_at: createdAt } of tx.each<Row>(SUBSCRIPTIONS))
    yield { type: "subscription", pattern, group, queue: tx.queues.of(queue).name, createdAt };
}

const DOCUMENTS = `SELECT kind, name, value, due_at FROM document ORDER BY kind, name`;

function* exportDocuments(tx: Tx): Generator<StoreRecord> {
  type Row = { kind: string; name: string; value: string; due_at: number | null };
  for (const { kind, name, value, due_at: dueAt } of tx.each<Row>(DOCUMENTS))
    yield { type: "document", kind, name, value, ...present({ dueAt }) };
}

const RUNS = `SELECT * FROM run ORDER BY id`;

function* exportRuns(tx: Tx): Generator<StoreRecord> {
  for (const row of tx.each<RunRow>(RUNS))
    yield runEntry(tx, row, bodyFrom(row.result), signalsOfRun(tx, row.id));
}

const PARTS = `
  SELECT run_part.*, run.created_at AS began_at FROM run_part CROSS JOIN run ON run.id = run_part.run
  ORDER BY run_part.task`;

function* exportParts(tx: Tx): Generator<StoreRecord> {
  for (const row of tx.each<PartRow & { awaits_join: number; result: Body | null }>(PARTS))
    yield partEntry(tx, row, row.awaits_join === 1 ? { result: bodyFrom(row.result) } : null);
}

const CHILDREN = `
  SELECT child.*, parent.created_at AS parent_created_at FROM child CROSS JOIN task AS parent ON parent.seq = child.parent
  ORDER BY child.parent, child.n`;

function* exportChildren(tx: Tx): Generator<StoreRecord> {
  for (const row of tx.each<ChildRow & { result: Body | null; error: string | null }>(CHILDREN)) {
    const error = parsed(row.error) as TaskError | null;
    yield childEntry(tx, row, { result: bodyFrom(row.result), error });
  }
}

const KEYS = `SELECT * FROM idempotency ORDER BY queue, key`;

function* exportKeys(tx: Tx): Generator<StoreRecord> {
  for (const row of tx.each<KeyRow>(KEYS)) yield keyEntry(tx, row, tx.queues.of(row.queue).name);
}
