import { randomUUID } from "node:crypto";
import type { Flow } from "../../../core/flow.ts";
import type { Meter } from "../../../core/rate.ts";
import {
  EXPORT_FORMAT,
  type GateState,
  type PartEntry,
  type QueueEntry,
  type RunEntry,
  type StoreRecord,
} from "../../../core/record.ts";
import { parsePart, type Stage } from "../../../core/run.ts";
import type { Body, EndState } from "../../../core/task.ts";
import { bodyFrom } from "../statements/body.ts";
import { stateFrom } from "../limits/lanes.ts";
import type { RunRow } from "../flows/runs.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";
import { exportTasks } from "./export-tasks.ts";

/**
 * Everything in the store, inside a reading transaction; without the last record. `paused`: the queues that a move has
 * paused.
 */
export function* exportStore(tx: Tx, id: string | null, paused: readonly string[]): Generator<StoreRecord> {
  yield {
    type: "store",
    format: EXPORT_FORMAT,
    export: id ?? randomUUID(),
    ...{ store: tx.salt, now: tx.now, seq: tx.seq, fence: tx.fence },
  };
  const byMove = new Set(paused);
  for (const queue of tx.queues.all) yield queueEntry(tx, queue, queue.paused && !byMove.has(queue.name));
  yield* exportGroups(tx);
  yield* exportSubscriptions(tx);
  yield* exportDocuments(tx);
  yield* exportRuns(tx);
  yield* exportParts(tx);
  yield* exportTasks(tx);
  yield* exportKeys(tx);
}

const GATE = `SELECT meter, held_until, wake_at, reviewed FROM gate WHERE queue = ?`;
const FLOW = `
  SELECT slot, added, claimed, done, failed, wait_ms AS waitMs, service_ms AS serviceMs FROM flow WHERE queue = ? ORDER BY slot`;

interface GateRow {
  meter: string | null;
  held_until: number | null;
  wake_at: number | null;
  reviewed: string | null;
}

function queueEntry(tx: Tx, queue: Queue, paused: boolean): QueueEntry {
  const gate = tx.get<GateRow>(GATE, queue.id);
  const flow = tx.all<Flow & { slot: number }>(FLOW, queue.id);
  return {
    ...{ type: "queue", name: queue.name, policy: queue.named },
    ...(queue.declared !== null && { declared: queue.declared }),
    ...(paused && { paused: true as const }),
    createdAt: queue.createdAt,
    ...(gate && gateState(gate)),
    ...(gate && gate.reviewed !== null && { reviewed: gate.reviewed }),
    ...(flow.length > 0 && { flow }),
  };
}

function gateState({ meter, held_until: heldUntil, wake_at: wakeAt }: GateRow): GateState {
  return {
    ...(meter !== null && { meter: JSON.parse(meter) as Meter }),
    ...(heldUntil !== null && { heldUntil }),
    ...(wakeAt !== null && { wakeAt }),
  };
}

const LANES = `SELECT queue, group_key, state FROM lane WHERE state IS NOT NULL ORDER BY queue, group_key`;

function* exportGroups(tx: Tx): Generator<StoreRecord> {
  for (const row of tx.each<{ queue: number; group_key: string; state: string }>(LANES)) {
    const { meter, heldUntil, wakeAt } = stateFrom(row.state);
    if (meter === undefined && heldUntil === undefined && wakeAt === undefined) continue;
    yield {
      ...{ type: "group", queue: tx.queues.of(row.queue).name, key: row.group_key },
      ...(meter && { meter }),
      ...(heldUntil !== undefined && { heldUntil }),
      ...(wakeAt !== undefined && { wakeAt }),
    };
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
    yield { type: "document", kind, name, value, ...(dueAt !== null && { dueAt }) };
}

const RUNS = `SELECT * FROM run ORDER BY id`;

function* exportRuns(tx: Tx): Generator<RunEntry> {
  for (const row of tx.each<RunRow>(RUNS)) {
    const { queue, pipeline, state, ended_at: endedAt } = row;
    const result = bodyFrom(row.result);
    yield {
      ...{ type: "run", id: tx.id(row.created_at, row.id), queue, pipeline },
      stages: JSON.parse(row.stages) as Stage[],
      underWay: row.under_way,
      ...(state !== null && { state }),
      ...(endedAt !== null && { endedAt }),
      ...(result !== null && { result }),
    };
  }
}

const PARTS = `
  SELECT run_part.*, run.created_at AS began_at FROM run_part CROSS JOIN run ON run.id = run_part.run
  ORDER BY run_part.task`;

interface PartRow {
  task: number;
  run: number;
  created_at: number;
  began_at: number;
  stage: string;
  part: string;
  state: EndState | null;
  started_at: number | null;
  ended_at: number | null;
  awaits_join: number;
  result: Body | null;
}

function* exportParts(tx: Tx): Generator<PartEntry> {
  for (const row of tx.each<PartRow>(PARTS)) {
    const { stage, state, started_at: startedAt, ended_at: endedAt } = row;
    yield {
      ...{ type: "part", id: tx.id(row.created_at, row.task), run: tx.id(row.began_at, row.run), stage },
      part: parsePart(row.part),
      ...(state !== null && { state }),
      ...(startedAt !== null && { startedAt }),
      ...(endedAt !== null && { endedAt }),
      ...(row.awaits_join === 1 && { awaitsJoin: { result: bodyFrom(row.result) } }),
    };
  }
}

const KEYS = `SELECT * FROM idempotency ORDER BY queue, key`;

interface KeyRow {
  queue: number;
  key: string;
  task: number;
  created_at: number;
  forget_at: number | null;
  state: EndState | null;
}

function* exportKeys(tx: Tx): Generator<StoreRecord> {
  for (const { queue, key, task, created_at: createdAt, forget_at: forgetAt, state } of tx.each<KeyRow>(KEYS))
    yield {
      ...{ type: "key", queue: tx.queues.of(queue).name, key, task: tx.id(createdAt, task) },
      ...(forgetAt !== null && { forgetAt }),
      ...(state !== null && { state }),
    };
}
