import { randomUUID } from "node:crypto";
import type { Meter } from "../core/queue/rate.ts";
import {
  EXPORT_FORMAT,
  type ChildEntry,
  type GateState,
  type KeyEntry,
  type PartEntry,
  type RunEntry,
  type RunSignal,
  type StoreHeader,
  type TaskEntry,
} from "../core/record/record.ts";
import type { Stage, StageCounts } from "../core/run/run.ts";
import { parsePart } from "../core/run/run-part.ts";
import { NEVER } from "../core/task/transition.ts";
import type { Body, EndState, Headers, Step, TaskError } from "../core/task/task.ts";

/**
 * Rows of the tables that both SQL engines have, as records of an export. `transfer/export.ts` and
 * `transfer/export-tasks.ts` of both engines read the rows. Payloads and results are separate arguments, because each
 * engine stores them in its own way.
 */

export interface Ids {
  id(createdAt: number, seq: number): string;
}

/** The fields that have a value: a record leaves the others out. */
export function present<T extends object>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } {
  const found: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) if (value != null) found[name] = value;
  return found as { [K in keyof T]?: NonNullable<T[K]> };
}

export function parsed(json: string | null): unknown {
  return json === null ? null : JSON.parse(json);
}

/** `id`: of the move that has paused the store, whose exports are all the same one. */
export function headerOf(
  id: string | null,
  row: Omit<StoreHeader, "type" | "format" | "export">,
): StoreHeader {
  return { type: "store", format: EXPORT_FORMAT, export: id ?? randomUUID(), ...row };
}

export interface GateRow {
  meter: string | null;
  held_until: number | null;
  wake_at: number | null;
}

export function gateState({ meter, held_until: heldUntil, wake_at: wakeAt }: GateRow): GateState {
  return present({ meter: parsed(meter) as Meter | null, heldUntil, wakeAt });
}

export interface RunRow {
  id: number;
  created_at: number;
  queue: string;
  pipeline: string;
  stages: string;
  under_way: number;
  counts: string | null;
  state: Exclude<EndState, "dead"> | null;
  ended_at: number | null;
}

export function runEntry(ids: Ids, row: RunRow, result: Body | null, signals: RunSignal[]): RunEntry {
  const { queue, pipeline, under_way: underWay, state, ended_at: endedAt } = row;
  const stages = JSON.parse(row.stages) as Stage[];
  return {
    ...{ type: "run", id: ids.id(row.created_at, row.id), queue, pipeline, stages, underWay },
    ...present({ counts: parsed(row.counts) as StageCounts | null }),
    ...(signals.length > 0 && { signals }),
    ...present({ state, endedAt, result }),
  };
}

export interface PartRow {
  task: number;
  run: number;
  created_at: number;
  /** When the run began, which is part of its id. */
  began_at: number;
  stage: string;
  part: string;
  state: EndState | null;
  started_at: number | null;
  ended_at: number | null;
}

export function partEntry(ids: Ids, row: PartRow, awaitsJoin: { result: Body | null } | null): PartEntry {
  const { stage, state, started_at: startedAt, ended_at: endedAt } = row;
  return {
    ...{ type: "part", id: ids.id(row.created_at, row.task), run: ids.id(row.began_at, row.run), stage },
    part: parsePart(row.part),
    ...present({ state, startedAt, endedAt, awaitsJoin }),
  };
}

export interface ChildRow {
  task: number;
  parent: number;
  n: number;
  created_at: number;
  /** When the parent was added, which is part of its id. */
  parent_created_at: number;
  name: string;
  queue: string;
  state: EndState | null;
  ended_at: number | null;
}

/** `kept`: the result or error of a child whose task was removed. */
export function childEntry(
  ids: Ids,
  row: ChildRow,
  kept: { result: Body | null; error: TaskError | null },
): ChildEntry {
  const { n, name, queue, state, ended_at: endedAt } = row;
  return {
    ...{
      type: "child",
      id: ids.id(row.created_at, row.task),
      parent: ids.id(row.parent_created_at, row.parent),
    },
    ...{ n, name, queue },
    ...present({ state, endedAt, ...kept }),
  };
}

export interface KeyRow {
  queue: number;
  key: string;
  task: number;
  created_at: number;
  forget_at: number | null;
  state: EndState | null;
}

export function keyEntry(ids: Ids, row: KeyRow, queue: string): KeyEntry {
  const { key, forget_at: forgetAt, state } = row;
  return { type: "key", queue, key, task: ids.id(row.created_at, row.task), ...present({ forgetAt, state }) };
}

/** A task as the table of its state describes it. */
export type TaskInState = Pick<
  TaskEntry,
  "state" | "elsewhere" | "dueAt" | "waitsFor" | "blocksGroup" | "verifying" | "endedAt" | "result"
> & { failures?: number; linePos?: number };

export interface LineRow {
  pos: number;
  failures: number;
}

export function inLine({ pos: linePos, failures }: LineRow): TaskInState {
  return { state: "ready", linePos, failures };
}

export function inElsewhereLine(row: LineRow & { until: number; avoid: string }): TaskInState {
  return { ...inLine(row), elsewhere: { until: row.until, avoid: JSON.parse(row.avoid) as string[] } };
}

export interface ScheduledRow {
  due: number;
  failures: number;
  blocks_group: number | boolean;
}

export function asScheduled(
  { due, failures, blocks_group: blocksGroup }: ScheduledRow,
  signal: string | null,
): TaskInState {
  return {
    ...{ state: signal === null ? "scheduled" : "parked", failures },
    ...(due !== NEVER && { dueAt: due }),
    ...(signal !== null && { waitsFor: signal }),
    ...(blocksGroup && { blocksGroup: true as const }),
  };
}

export interface TaskRow {
  seq: number;
  queue: number;
  created_at: number;
  pos: number | null;
  group_key: string | null;
  expires_at: number | null;
  max_attempts: number | null;
  idempotency_key: string | null;
  content_type: string | null;
  headers: string | null;
  cost: number | null;
}

export function taskEntry(
  ids: Ids,
  row: TaskRow,
  { queue, data, priority, urgent }: { queue: string; data: Body; priority: number; urgent: boolean },
  { failures = 0, linePos, blocksGroup, ...inState }: TaskInState,
): TaskEntry {
  const pos = row.pos ?? row.seq;
  const { group_key: groupKey, cost, expires_at: expiresAt, max_attempts: maxAttempts } = row;
  return {
    ...{ type: "task", id: ids.id(row.created_at, row.seq), queue, ...inState, data },
    ...present({ contentType: row.content_type, headers: parsed(row.headers) as Headers | null }),
    ...(priority !== 0 && { priority }),
    ...(urgent && { urgent }),
    ...present({ cost, groupKey, idempotencyKey: row.idempotency_key, maxAttempts, expiresAt }),
    ...(pos !== row.seq && { pos }),
    ...(failures > 0 && { failures }),
    ...(linePos !== undefined && linePos !== pos && { linePos }),
    ...(blocksGroup && groupKey !== null && { blocksGroup }),
  };
}

/** Steps, signals and feedback are rows of the same table. */
export function handlerState(
  rows: readonly { kind: Step["kind"] | "feedback"; name: string; value: Body | null }[],
): Pick<TaskEntry, "steps" | "feedback"> {
  const steps = rows.filter((row): row is Step => row.kind !== "feedback");
  const feedback = rows.find(({ kind }) => kind === "feedback");
  return {
    ...(steps.length > 0 && { steps }),
    ...(feedback && { feedback: feedback.value as string }),
  };
}
