import type { Clock } from "./clock.ts";
import { DibsError } from "./errors.ts";
import type { EventPage } from "./event-page.ts";
import type { DeclareOutcome, NamedPolicy, QueuePolicy } from "./policy.ts";
import type { Payloads } from "./preview.ts";
import type { RunPart, RunRecord, RunState, Stage } from "./run.ts";
import type { ScheduleDefinition, ScheduleRecord } from "./schedule.ts";
import type { NextCosts } from "./stage-cost.ts";
import type { Verified } from "./verification.ts";
import type {
  AddedTask,
  Addition,
  Attempt,
  Body,
  ClaimedTask,
  ClaimRef,
  DeadFilter,
  DeadPattern,
  NewMessage,
  NewTask,
  PatternKey,
  QueueStats,
  Step,
  SubscriptionRecord,
  TaskEnd,
  TaskError,
  TaskRecord,
  TaskState,
  TravellingTask,
  WorkerInfo,
  WorkerRecord,
} from "./task.ts";

/**
 * What handles and workers are written over: the broker in this process, or a client to one elsewhere.
 * Values are checked behind it. Calls take effect in the order they are made; calls of one moment share
 * commits. Durations are milliseconds.
 */
export interface Port {
  readonly clock: Clock;

  /** Answers the policy that is in force. */
  declare(queue: string, policy: NamedPolicy, options?: DeclareOptions): Promise<QueuePolicy>;
  /** `movedTo`: not an operator says so but a move, to the store of that number. Whatever an operator says takes that back. */
  pause(queue: string, paused: boolean, options?: { movedTo?: number | undefined }): Promise<void>;
  /** Ends a hold before its time: a group's, or the queue's own. Answers whether there was one. */
  unhold(queue: string, groupKey?: string): Promise<boolean>;
  queues(queue?: string): Promise<QueueSummary[]>;
  stats(queue: string): Promise<QueueStats>;
  purge(queue: string): Promise<number>;
  drop(queue: string): Promise<void>;

  /** Makes the subscription if it is new, and declares the policy of its queue. */
  subscribe(
    pattern: string,
    group: string,
    policy: NamedPolicy,
    options?: Omit<DeclareOptions, "force">,
  ): Promise<QueuePolicy>;
  /** Removes the subscription, and its queue with all it holds; answers whether there was one. */
  unsubscribe(pattern: string, group: string): Promise<boolean>;
  subscriptions(topic?: string): Promise<SubscriptionRecord[]>;
  publish(message: NewMessage, options?: TransactionOptions): Promise<AddedTask[]>;

  /**
   * Makes the schedule, or lays the definition over it. Skipped when the same definition was the last one declared, so that
   * a restart neither plans anew nor undoes what an operator changed since; `force` is that operator.
   */
  schedule(
    name: string,
    definition: ScheduleDefinition,
    options?: { force?: boolean } & GuardedChange<ScheduleRecord>,
  ): Promise<ScheduleRecord>;
  /** While it is paused nothing fires, and nothing is missed. */
  pauseSchedule(name: string, paused: boolean, options?: GuardedChange<ScheduleRecord>): Promise<void>;
  /** Answers whether there was one. The tasks it has added stay. */
  unschedule(name: string, options?: GuardedChange<ScheduleRecord>): Promise<boolean>;
  schedules(name?: string): Promise<ScheduleRecord[]>;

  add(tasks: NewTask[], options?: TransactionOptions): Promise<AddedTask[]>;
  claim(wish: ClaimCall): Promise<ClaimResult>;
  settle(claim: SettleRef, word: SettleCall, options?: TransactionOptions): Promise<{ state: TaskState }>;
  extend(claim: ClaimRef, lease: number): Promise<void>;
  progress(claim: ClaimRef, value: number, note: string | null): Promise<void>;
  step(claim: ClaimRef, name: string, value: Body | null): Promise<void>;
  steps(id: string): Promise<Step[]>;

  /** Whether it was kept: not where the task has ended, or one of that name has come, or was waited for in vain. */
  signal(id: string, name: string, value: Body | null): Promise<boolean>;

  /** For a verifier. */
  verifying(verified: Verified): Promise<{ task: TaskRecord; result: Body | null }>;

  /** A task that came from another store is known by the id it had there, too. */
  task(id: string): Promise<TaskRecord>;
  history(id: string): Promise<Attempt[]>;
  cancel(id: string): Promise<TaskState>;
  /** Resolves when the task has ended; of a run, when that has, or some of it is dead. */
  end(id: string, options?: WaitOptions): Promise<TaskEnd>;
  list(query: ListQuery): Promise<Page>;

  /** Makes the definition known to all, in place of the last one; runs go on by the one they began with. Answers the last. */
  definePipeline(
    name: string,
    stages: Stage[],
    options?: GuardedChange<Stage[] | null>,
  ): Promise<Stage[] | null>;
  pipelines(name?: string): Promise<PipelineRecord[]>;
  /** A run, and a page of its tasks. */
  run(id: string, page?: { after?: number | undefined; limit?: number | undefined }): Promise<RunPage>;
  cancelRun(id: string): Promise<RunState>;

  patterns(queue: string, by: PatternKey, limit: number): Promise<DeadPattern[]>;
  redrive(queue: string, filter: DeadFilter, spacing: number, options?: { fresh?: boolean }): Promise<number>;
  discard(queue: string, filter: DeadFilter): Promise<number>;

  /** From one store to another: what these promise is said in engine/engine.ts. */
  depart(queue: string, to: number, limit: number): Promise<TravellingTask[]>;
  arrive(tasks: TravellingTask[]): Promise<{ store: number; tasks: { id: string; existing: boolean }[] }>;
  gone(tasks: { id: string; cancelled: boolean }[]): Promise<{ cancelled: string[] }>;

  /** A worker starts; `listener` hears of claims it loses. Its heartbeat is somebody else's care from here on. */
  join(worker: WorkerInfo, lease: number, listener: (notice: ClaimNotice) => void): Promise<number>;
  /** After a claim whose outcome is unknown: gives back what the session holds beside these, and nobody knows of. */
  reconcile(session: number, fences: number[]): Promise<void>;
  /**
   * A worker whose opener is gone, a server that was restarted, goes on through this one under a new number. `fences`
   * are the claims it knows of; others that were made for it go back. CLAIM_LOST where it was given up.
   */
  rejoin(
    session: number,
    fences: number[],
    listener: (notice: ClaimNotice) => void,
  ): Promise<{ session: number; lost: number[] }>;
  /** A worker takes no more: nothing is kept for it from here on. What it holds stays its own. */
  retire(session: number): Promise<void>;
  /** With `lost` it was given up: what it still holds counts as failed. Otherwise that is released. */
  leave(session: number, options?: { lost?: boolean }): Promise<void>;
  workers(queue?: string): Promise<WorkerRecord[]>;

  events(signal: AbortSignal): AsyncIterableIterator<EventPage>;
  close(): Promise<void>;
}

export interface DeclareOptions {
  /** An operator says so: it holds whatever was declared before. */
  force?: boolean;
  /** Makes a queue that is new, and leaves one that exists as it is. */
  create?: boolean;
  /** Is told what came of it. Does not cross the wire. */
  onOutcome?: (outcome: DeclareOutcome) => void;
}

/** For a caller that may change some of what is in the store, and not all. Does not cross the wire. */
export interface GuardedChange<Before> {
  /** Asked about what is there, within the change: false leaves it as it is. What it throws, the caller is told. */
  mayChange?: (before: Before) => boolean;
  onOutcome?: (outcome: DeclareOutcome) => void;
}

export interface TransactionOptions {
  /** A transaction of the caller's: it happens when that commits, or not at all. */
  tx?: unknown;
}

export interface WaitOptions {
  timeout?: number | undefined;
  signal?: AbortSignal | undefined;
  /** The id is a run's. */
  of?: "runs" | undefined;
  /** Where it does not end in time, a StillPending names its state. That takes another look at the store. */
  tellState?: boolean | undefined;
}

/** The TIMEOUT of a wait that was asked to tell the state. */
export class StillPending extends DibsError {
  readonly state: TaskState | RunState;

  constructor(message: string, state: TaskState | RunState) {
    super("TIMEOUT", message);
    this.state = state;
  }
}

export interface PipelineRecord {
  name: string;
  stages: Stage[];
}

export interface RunPage {
  run: RunRecord;
  /** In the order they were added. */
  parts: RunPart[];
  next: number | null;
}

export interface ClaimCall {
  queues: string[];
  max: number;
  worker: string;
  /** First at most so many from each queue, for fairness among them. */
  share?: number | undefined;
  session?: number | undefined;
  lease?: number | undefined;
  /** How long to wait for a first task; 0: not at all. */
  wait: number;
  signal?: AbortSignal | undefined;
}

export interface ClaimResult {
  tasks: ClaimedTask[];
  policies: Record<string, QueuePolicy>;
}

/** A claim, with what its failure's backoff is reckoned from. */
export interface SettleRef extends ClaimRef {
  queue: string;
  attempt: number;
}

/** What a holder says of its claim. */
export type SettleCall = SettleOutcome & {
  /** What it really took of limits that have a unit, where that is not its cost. */
  spent?: number;
};

type SettleOutcome =
  /**
   * With `each` the result is a JSON array, and its items are parts of the task's run from here on. `next`: what the tasks cost
   * that follow in its run.
   */
  | { kind: "ack"; result: Body | null; adds?: Addition[]; each?: boolean; next?: NextCosts }
  /** Without `delay` the queue's backoff decides. */
  | { kind: "nack"; error: TaskError; delay?: number | undefined; outcome?: "failed" | "timeout" }
  /** Somebody else's limit was met: no attempt is used up, and its group, or its queue, waits for `delay` or the backoff. */
  | { kind: "hold"; error: TaskError; delay?: number | undefined }
  | { kind: "reject"; error: TaskError }
  | { kind: "release"; started: boolean }
  /** Waits for a signal, for at most `timeout`, and holds nobody meanwhile. */
  | { kind: "park"; signal: string; timeout: number | null }
  /** A verifier's, on the result of another task. */
  | { kind: "accept"; of: Verified }
  | { kind: "refuse"; of: Verified & { queue: string; attempt: number }; feedback: string };

export type ClaimNotice =
  | { kind: "lost" | "timeout" | "cancel"; id: string; fence: number }
  | { kind: "gone" };

export interface ListQuery {
  queue: string;
  state: TaskState;
  filter?: DeadFilter | undefined;
  after?: string | undefined;
  limit: number;
  /** `"full"`: payloads and results in full. Otherwise large ones come as their beginning, marked by `truncated`. */
  payloads?: Payloads | undefined;
}

/** It ends at its limit or at about 4 MiB, whichever comes first; where there is more, `next` is not null. */
export interface Page {
  tasks: TaskRecord[];
  next: string | null;
}

export interface QueueSummary {
  name: string;
  policy: QueuePolicy;
  paused: boolean;
  /** It is paused by a move, to the store of this number; absent otherwise. */
  movedTo?: number;
  createdAt: number;
}
