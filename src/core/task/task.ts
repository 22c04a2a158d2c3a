import type { LogLine } from "../handler/attempt-log.ts";
import type { ChildCounts, ParentRef } from "../handler/children.ts";
import type { Unique } from "./unique.ts";
import type { RunPlace, RunStart } from "../run/run.ts";

/**
 * What a task is, in the terms of ARCHITECTURE.md. Plain data, so that it crosses threads and wires. All layers use it.
 */

export const PENDING_STATES = ["scheduled", "waiting", "ready", "claimed", "parked", "verifying"] as const;
export const END_STATES = ["done", "dead", "cancelled", "expired"] as const;
export type TaskState = (typeof PENDING_STATES)[number] | (typeof END_STATES)[number];
export type EndState = (typeof END_STATES)[number];

export function isEnd(state: TaskState): state is EndState {
  return (END_STATES as readonly string[]).includes(state);
}

/** A payload or result: bytes, or text, which is stored as text because most payloads are JSON. */
export type Body = string | Uint8Array;

/** Text is JSON by default. A content type is stored only if it differs. */
export const JSON_TYPE = "application/json";

export type Headers = Record<string, string>;

/** A task to add. Durations are in milliseconds, from the engine's current time. */
export interface NewTask {
  queue: string;
  data: Body;
  contentType?: string;
  headers?: Headers;
  priority?: number;
  delay?: number;
  groupKey?: string;
  idempotencyKey?: string;
  /** Instead of an idempotencyKey: core/task/unique.ts. */
  unique?: Unique;
  ttl?: number;
  maxAttempts?: number;
  /** Its cost in rate limits with a unit; 1 unless set. */
  cost?: number;
  /** Starts before all other tasks, and also outside its queue's window. */
  urgent?: boolean;
  /** The task begins a run of a pipeline, in its first stage: core/run/run.ts. */
  run?: RunStart;
}

/** A message: it becomes a task for every subscription whose pattern matches the topic. */
export type NewMessage = Omit<NewTask, "queue" | "run" | "unique"> & { topic: string };

/** What a success adds: a task for a queue, or a message for all current subscriptions. */
export type Addition = NewTask | NewMessage;

export interface AddedTask {
  id: string;
  queue: string;
  state: TaskState;
  /** The idempotencyKey, or the key of `unique`, was in use: this is the task that has it, and nothing was added. */
  existing: boolean;
}

/** Urgent tasks come before all priorities. A lower rank is claimed earlier. */
export function rankOf({ priority, urgent }: { priority?: number; urgent?: boolean }): number {
  return 0 - (priority ?? 0) - (urgent ? URGENT : 0);
}

export const URGENT = 10_000;

/** The inverse of rankOf. */
export function fromRank(rank: number): { priority: number; urgent: boolean } {
  const urgent = isUrgent(rank);
  return { priority: 0 - rank - (urgent ? URGENT : 0), urgent };
}

export function isUrgent(rank: number): boolean {
  return rank < FIRST_RANK;
}

/** Tasks with this rank or a higher one are not urgent. */
export const FIRST_RANK = -URGENT / 2;

/** Identifies a claim. Every way to settle or extend checks the fence. */
export interface ClaimRef {
  id: string;
  fence: number;
}

export interface ClaimedTask extends ClaimRef {
  queue: string;
  data: Body;
  contentType: string;
  headers: Headers;
  /** Failures so far + 1. */
  attempt: number;
  maxAttempts: number;
  priority: number;
  groupKey: string | null;
  createdAt: number;
  /** Present if the task was added with a cost. */
  cost?: number;
  /** The task has steps of earlier attempts, or received a signal. */
  stepped?: true;
  /** Why a verifier refused the last result. */
  feedback?: string;
  /** Its run of a pipeline. */
  run?: RunPlace;
}

/** What one call of a handler stores for the next one: see docs/concepts/steps-and-signals.md. */
export interface Step {
  /** `timeout`: the signal of that name did not arrive in time. `child`: a child was spawned (core/handler/children.ts). */
  kind: "step" | "signal" | "timeout" | "child";
  name: string;
  value: Body | null;
}

/** What is stored of a failure. */
export interface TaskError {
  name: string;
  message: string;
  stack: string | null;
}

/**
 * These attempts did not fail: `released` (the worker gave the task back, or stopped), `parked`, and `limited` (another
 * system's limit was met).
 */
export const ATTEMPT_OUTCOMES = [
  "done",
  "failed",
  "refused",
  "rejected",
  "lost",
  "timeout",
  "released",
  "limited",
  "parked",
  "cancelled",
] as const;

export type AttemptOutcome = (typeof ATTEMPT_OUTCOMES)[number];

/** A row of a task's ledger: one claim that has ended. Times are the engine's. */
export interface Attempt {
  attempt: number;
  fence: number;
  worker: string;
  startedAt: number;
  endedAt: number;
  outcome: AttemptOutcome;
  error: (TaskError & { fingerprint: string }) | null;
  /** What its handler logged, oldest first. Absent if it logged nothing. */
  log?: LogLine[];
}

export interface TaskRecord {
  id: string;
  queue: string;
  state: TaskState;
  data: Body;
  contentType: string;
  headers: Headers;
  priority: number;
  groupKey: string | null;
  idempotencyKey: string | null;
  /** Its key, if it was added with `unique`. */
  uniqueKey?: string;
  cost: number;
  urgent: boolean;
  attempt: number;
  maxAttempts: number;
  createdAt: number;
  /** When a scheduled task is due, or a parked one stops waiting. */
  dueAt: number | null;
  /** The signal that a parked task waits for. */
  waitsFor: string | null;
  expiresAt: number | null;
  /** The worker of the current claim, or of the claim that ended the task. */
  worker: string | null;
  startedAt: number | null;
  endedAt: number | null;
  progress: { value: number; note: string | null } | null;
  cancelRequested: boolean;
  /** What the attempt in progress has logged so far. Not in lists. Absent if it has logged nothing. */
  log?: LogLine[];
  result: Body | null;
  /** Why a dead task is dead. */
  error: (TaskError & { fingerprint: string }) | null;
  /** The run of a pipeline that it belongs to. */
  run: RunPlace | null;
  /** The task that spawned it. Not in lists. Absent if no task did, or if that task has been removed. */
  parent?: ParentRef;
  /** Not in lists. Absent if it has spawned none. */
  children?: ChildCounts;
  /** In lists: `data` or `result` is shortened, and this is its full size in bytes. */
  truncated?: { data?: number; result?: number };
}

/** How a task ended, for callers that wait for it. */
export interface TaskEnd {
  id: string;
  state: EndState;
  result: Body | null;
  error: (TaskError & { fingerprint: string }) | null;
}

export interface WorkerInfo {
  /** Identifies the instance, for "retry elsewhere". */
  id: string;
  /** A label for people; several instances may share it. */
  name: string;
  queues: string[];
  concurrency: number;
  host: string;
  pid: number;
}

export interface WorkerRecord extends WorkerInfo {
  joinedAt: number;
  /** Milliseconds since its last heartbeat. */
  silentFor: number;
  /** Tasks that it holds. */
  claims: number;
}

export interface DepthByState {
  ready: number;
  waiting: number;
  scheduled: number;
  claimed: number;
  parked: number;
  verifying: number;
  done: number;
  dead: number;
  cancelled: number;
  expired: number;
}

export const NO_DEPTH: Readonly<DepthByState> = {
  ready: 0,
  waiting: 0,
  scheduled: 0,
  claimed: 0,
  parked: 0,
  verifying: 0,
  done: 0,
  dead: 0,
  cancelled: 0,
  expired: 0,
};

export interface QueueStats {
  queue: string;
  /**
   * False: no task was ever added to the queue and no worker declared it, or it was deleted. All figures are 0 then.
   */
  exists: boolean;
  paused: boolean;
  depth: DepthByState;
  /** Age in milliseconds of the oldest task that is ready; null when there is none. */
  oldestAge: number | null;
  /** Over the last minute. */
  rates: { windowMs: number; addedPerSecond: number; donePerSecond: number; failedPerSecond: number };
  /** Share of failed attempts among those that ended in the last minute; null if none ended. */
  failureRate: number | null;
  /** Mean milliseconds from claim to settle, and from add to claim, over the last minute; null if there were none. */
  serviceTime: number | null;
  waitTime: number | null;
  /** How the service times of the latest successes are distributed; null if none is stored. */
  serviceTimes: ServiceTimes | null;
  workers: number;
  /** Why the queue is held back: it has tasks, and its limits let none start now. Null: it is not held back. */
  heldBack: HeldBack | null;
}

/** What a list of queues shows of each: its statistics, without those that are read from its latest successes. */
export type QueueFigures = Omit<QueueStats, "queue" | "exists" | "paused" | "serviceTimes">;

/** Milliseconds from claim to ack of the last `count` successes: half of them took at most `p50`, and so on. */
export interface ServiceTimes {
  count: number;
  mean: number;
  p50: number;
  p90: number;
  p99: number;
  max: number;
}

/**
 * If tasks are ready: a hold of the queue, its window, its concurrency or its rate. If none are ready: a hold or a rate
 * of its groups.
 */
export interface HeldBack {
  by: "hold" | "window" | "concurrency" | "rate" | "groups";
  /** When the first task may start; null: when a task ends. */
  until: number | null;
}

/** A consumer group: a message published to a topic that matches its pattern is added to its queue. */
export interface SubscriptionRecord {
  pattern: string;
  /** The group's name. Another name or another pattern is another subscription. */
  group: string;
  queue: string;
  createdAt: number;
}

/** A kind of failure among the dead letters. */
export interface DeadPattern {
  pattern: string;
  count: number;
  /** Share of all dead letters of the queue, 0 to 1. */
  share: number;
  firstAt: number;
  lastAt: number;
  sample: { id: string; error: TaskError | null };
}

/** Selects dead letters. All given fields must match; without fields, all of the queue. */
export interface DeadFilter {
  ids?: string[];
  /** A fingerprint, as `patterns` gives it. */
  pattern?: string;
  /** A part of the error's name or message; case does not matter. */
  error?: string;
}

export type PatternKey = "fingerprint" | "worker" | `header:${string}`;
