import type { TaskChange } from "./task/change.ts";
import type {
  ClaimCall,
  ClaimNotice,
  ClaimResult,
  ClaimStatus,
  SettleCall,
  SettleRef,
} from "./task/claim-call.ts";
import type { ChildEnd, ChildRecord, NewChild, SpawnedTask } from "./handler/children.ts";
import type { Clock } from "./time/clock.ts";
import { DibsError } from "./errors/errors.ts";
import type { EventPage } from "./event/event-page.ts";
import type {
  ListQuery,
  Page,
  Paged,
  PageQuery,
  PipelineRecord,
  QueuesQuery,
  QueueSummary,
  RunPage,
  RunsPage,
  RunsQuery,
} from "./answer/page.ts";
import type { DeclareOutcome, NamedPolicy, QueuePolicy } from "./queue/policy.ts";
import type { RunState, Stage } from "./run/run.ts";
import type { ScheduleDefinition, ScheduleRecord } from "./time/schedule.ts";
import type {
  SuperviseCall,
  SupervisedKind,
  SupervisedRecord,
  SuperviseOutcome,
  SupervisionEntry,
} from "./supervision.ts";
import type {
  AddedTask,
  Attempt,
  Body,
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
  TaskRecord,
  TaskState,
  WorkerInfo,
  WorkerRecord,
} from "./task/task.ts";
import type { Verified } from "./handler/verification.ts";

/**
 * The interface under handles and workers: the broker in this process, or a client of a server. Implementations check
 * the values. Calls take effect in the order in which they are made, and calls made at the same moment share commits.
 * Durations are milliseconds.
 */
export interface Port {
  readonly clock: Clock;

  /** Returns the current policy. */
  declare(queue: string, policy: NamedPolicy, options?: DeclareOptions): Promise<QueuePolicy>;
  pause(queue: string, paused: boolean): Promise<void>;
  /** Ends a hold early: a group's, or the queue's own. Returns whether there was one. */
  unhold(queue: string, groupKey?: string): Promise<boolean>;
  /** By name. With `stats`, each with its figures: one call for all queues costs less than `stats` for each. */
  queues(query?: QueuesQuery): Promise<Paged<QueueSummary>>;
  stats(queue: string): Promise<QueueStats>;
  purge(queue: string): Promise<number>;
  drop(queue: string): Promise<void>;

  /** Creates the subscription if it is new, and declares the policy of its queue. */
  subscribe(
    pattern: string,
    group: string,
    policy: NamedPolicy,
    options?: Omit<DeclareOptions, "force">,
  ): Promise<QueuePolicy>;
  /** Removes the subscription, and its queue with all its tasks. Returns whether there was one. */
  unsubscribe(pattern: string, group: string): Promise<boolean>;
  /** All subscriptions, or those that a topic reaches, in the order in which they were created. */
  subscriptions(query?: PageQuery & { topic?: string | undefined }): Promise<Paged<SubscriptionRecord>>;
  publish(message: NewMessage, options?: TransactionOptions): Promise<AddedTask[]>;

  /**
   * Creates the schedule, or changes its definition. Skipped if the same definition was the last one declared, so that
   * a restart neither plans again nor undoes what an operator has changed since. An operator passes `force`.
   */
  schedule(
    name: string,
    definition: ScheduleDefinition,
    options?: { force?: boolean } & GuardedChange<ScheduleRecord>,
  ): Promise<ScheduleRecord>;
  /** While a schedule is paused, nothing fires and nothing counts as missed. */
  pauseSchedule(name: string, paused: boolean, options?: GuardedChange<ScheduleRecord>): Promise<void>;
  /** Returns whether there was one. Tasks that it has added stay. */
  unschedule(name: string, options?: GuardedChange<ScheduleRecord>): Promise<boolean>;
  /** By name. */
  schedules(query?: PageQuery & { name?: string | undefined }): Promise<Paged<ScheduleRecord>>;
  /** Adds the schedule's task now, also while it is paused. Its plan stays as it is. */
  fireSchedule(name: string, options?: Pick<GuardedChange<ScheduleRecord>, "mayChange">): Promise<AddedTask>;

  /**
   * Takes or renews a name that one process at a time holds: of a pool, or of the alerts. `held: false`: another
   * process holds it, and nothing was changed. A lease of 0 gives the name up.
   */
  supervise(
    call: SuperviseCall,
    options?: Pick<GuardedChange<SupervisedRecord>, "mayChange">,
  ): Promise<SuperviseOutcome>;
  /** By name. */
  supervised(
    kind: SupervisedKind,
    query?: PageQuery & { name?: string | undefined },
  ): Promise<Paged<SupervisedRecord>>;
  /** The last decisions under a name, the newest first; a thousand are stored. */
  decisions(kind: SupervisedKind, name: string, limit: number): Promise<SupervisionEntry[]>;

  add(tasks: NewTask[], options?: TransactionOptions): Promise<AddedTask[]>;
  claim(call: ClaimCall): Promise<ClaimResult>;
  settle(claim: SettleRef, call: SettleCall, options?: TransactionOptions): Promise<{ state: TaskState }>;
  extend(claim: ClaimRef, lease: number): Promise<ClaimStatus>;
  /** With a `value` of null, the progress stays as it is. `log` is appended to the log of the attempt. */
  progress(claim: ClaimRef, value: number | null, note: string | null, log?: string): Promise<ClaimStatus>;
  step(claim: ClaimRef, name: string, value: Body | null): Promise<void>;
  steps(id: string): Promise<Step[]>;
  /**
   * Adds children of the claim's task: all or none. A child that was spawned before under the same name is returned as
   * it is.
   */
  spawn(claim: ClaimRef, children: NewChild[]): Promise<SpawnedTask[]>;
  /** A page of the children of a task, in the order of their numbers. With `ends`, also their results and errors. */
  children(id: string, query?: ChildrenQuery): Promise<ChildrenPage>;

  /**
   * Returns whether the signal was stored. It is not stored if the task has ended, or if it already received this
   * signal or stopped waiting for it. A signal of a run is for all its tasks, present and future.
   */
  signal(
    id: string,
    name: string,
    value: Body | null,
    options?: { of?: "runs" | undefined },
  ): Promise<boolean>;

  /** The task and the result that a verifier decides about. */
  verifying(verified: Verified): Promise<{ task: TaskRecord; result: Body | null }>;

  task(id: string): Promise<TaskRecord>;
  history(id: string): Promise<Attempt[]>;
  cancel(id: string): Promise<TaskState>;
  /**
   * Changes a task that is not claimed, or makes an ended task run again. WRONG_STATE if its state does not allow it.
   */
  change(id: string, change: TaskChange): Promise<ChangeOutcome>;
  /** Resolves when the task has ended. For a run: when it has ended, or a part of it is dead. */
  end(id: string, options?: WaitOptions): Promise<TaskEnd>;
  list(query: ListQuery): Promise<Page>;

  /**
   * Publishes the definition to all processes and replaces the last one, which it returns. Runs continue with the
   * definition they began with.
   */
  definePipeline(
    name: string,
    stages: Stage[],
    options?: GuardedChange<Stage[] | null>,
  ): Promise<Stage[] | null>;
  /** By name. */
  pipelines(query?: PageQuery & { name?: string | undefined }): Promise<Paged<PipelineRecord>>;
  /** A run, and a page of its tasks. */
  run(id: string, page?: { after?: number | undefined; limit?: number | undefined }): Promise<RunPage>;
  /** Runs of a pipeline, the latest first. */
  runs(query: RunsQuery): Promise<RunsPage>;
  cancelRun(id: string): Promise<RunState>;

  patterns(queue: string, by: PatternKey, limit: number): Promise<DeadPattern[]>;
  redrive(queue: string, filter: DeadFilter, spacing: number, options?: { fresh?: boolean }): Promise<number>;
  discard(queue: string, filter: DeadFilter): Promise<number>;

  /** A worker starts. `listener` is called when it loses claims. From here on the engine sends its heartbeats. */
  join(worker: WorkerInfo, lease: number, listener: (notice: ClaimNotice) => void): Promise<number>;
  /**
   * After a claim with an unknown outcome: releases the session's claims that are not in `fences`, because no worker
   * knows of them.
   */
  reconcile(session: number, fences: number[]): Promise<void>;
  /**
   * Continues a session through this process after the process that served it is gone (a server was restarted). The
   * session gets a new number. `fences` are the claims that the worker knows of; its other claims are released.
   * CLAIM_LOST if the session has expired.
   */
  rejoin(
    session: number,
    fences: number[],
    listener: (notice: ClaimNotice) => void,
  ): Promise<{ session: number; lost: number[] }>;
  /** The worker claims no more: no tasks are reserved for it from here on. It keeps the claims that it holds. */
  retire(session: number): Promise<void>;
  /** The worker leaves, and its claims are released. With `lost`, it was given up and its claims count as failed. */
  leave(session: number, options?: { lost?: boolean }): Promise<void>;
  /** Workers with heartbeats, in the order in which they joined. */
  workers(query?: PageQuery & { queue?: string | undefined }): Promise<Paged<WorkerRecord>>;

  /** For doors, which store here what their protocol needs beyond queues. Does not cross the wire. */
  readonly documents: Documents;

  events(signal: AbortSignal): AsyncIterableIterator<EventPage>;
  close(): Promise<void>;
}

/** Small named values that all servers of a store share, by kind. */
export interface Documents {
  /** By name: a page of a kind, or the one with this name. */
  list(
    kind: DoorKind,
    query?: PageQuery & { name?: string | undefined },
  ): Promise<Paged<{ name: string; value: string }>>;
  /**
   * Stores a value; null removes it. Returns the previous value. With `expect`, nothing changes unless that is the
   * previous value (null: none).
   */
  put(kind: DoorKind, name: string, value: string | null, expect?: string | null): Promise<string | null>;
}

/** Kinds of documents that doors own. Schedules, pipelines and pools have kinds of their own, and checks with them. */
export type DoorKind = `amqp-${string}`;

export interface ChildrenQuery {
  /** The `next` of the previous page. */
  after?: number | undefined;
  limit?: number | undefined;
  ends?: boolean | undefined;
}

export interface ChildrenPage {
  children: (ChildRecord | ChildEnd)[];
  next: number | null;
}

export interface ChangeOutcome {
  /** Its state after the change. */
  state: TaskState;
  /** False: it was that way already. */
  changed: boolean;
}

export interface DeclareOptions {
  /** An operator's change: applied whatever was declared before. */
  force?: boolean;
  /** Creates a new queue, and leaves an existing one unchanged. */
  create?: boolean;
  /** Called with the outcome. Does not cross the wire. */
  onOutcome?: (outcome: DeclareOutcome) => void;
}

/** A change by a caller that may change only part of the store. Does not cross the wire. */
export interface GuardedChange<Before> {
  /**
   * Called with the current value inside the change; false leaves it unchanged. If it throws, the caller gets the
   * error.
   */
  mayChange?: (before: Before) => boolean;
  onOutcome?: (outcome: DeclareOutcome) => void;
}

export interface TransactionOptions {
  /** The caller's transaction: the operation takes effect when it commits, or not at all. */
  tx?: unknown;
}

export interface WaitOptions {
  timeout?: number | undefined;
  signal?: AbortSignal | undefined;
  /** With "runs", the id is that of a run. */
  of?: "runs" | undefined;
  /** On timeout, throw StillPending with the state. This needs one more read of the store. */
  tellState?: boolean | undefined;
}

/** The TIMEOUT error of a wait with `tellState`. */
export class StillPending extends DibsError {
  readonly state: TaskState | RunState;

  constructor(message: string, state: TaskState | RunState) {
    super("TIMEOUT", message);
    this.state = state;
  }
}
