import type { TaskChange } from "./change.ts";
import type { Clock } from "./clock.ts";
import { DibsError } from "./errors.ts";
import type { EventPage } from "./event-page.ts";
import type { DeclareOutcome, NamedPolicy, QueuePolicy } from "./policy.ts";
import type { Payloads } from "./preview.ts";
import type { RunPart, RunRecord, RunState, Stage } from "./run.ts";
import type { ScheduleDefinition, ScheduleRecord } from "./schedule.ts";
import type { NextCosts } from "./stage-cost.ts";
import type {
  SuperviseCall,
  SupervisedKind,
  SupervisedRecord,
  SuperviseOutcome,
  SupervisionEntry,
} from "./supervision.ts";
import type { TaskMatch } from "./task-match.ts";
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
  QueueFigures,
  QueueStats,
  Step,
  SubscriptionRecord,
  TaskEnd,
  TaskError,
  TaskRecord,
  TaskState,
  WorkerInfo,
  WorkerRecord,
} from "./task.ts";

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
  /** All, or those that a topic reaches, in the order in which they were created. */
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
   * Takes or renews a name that one process at a time holds: a pool's, or that of the alerts. Not held: another process
   * has it, and nothing was changed. With a lease of 0, gives it up.
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
   * Returns whether the signal was stored. It is not if the task has ended, or if it already received this signal or
   * stopped waiting for it.
   */
  signal(id: string, name: string, value: Body | null): Promise<boolean>;

  /** The task and the result that a verifier decides about. */
  verifying(verified: Verified): Promise<{ task: TaskRecord; result: Body | null }>;

  task(id: string): Promise<TaskRecord>;
  history(id: string): Promise<Attempt[]>;
  cancel(id: string): Promise<TaskState>;
  /**
   * Changes a task that no worker has, or makes one that has ended run again. WRONG_STATE if its state does not allow it.
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

/** What a holder learns of a claim that is still valid. */
export interface ClaimStatus {
  /** The task ends cancelled, whatever its holder says: stop. */
  cancelRequested: boolean;
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

/** For a caller that may change only part of the store. Does not cross the wire. */
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
  /** The id is that of a run. */
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

export interface PipelineRecord {
  name: string;
  stages: Stage[];
}

export interface RunPage {
  run: RunRecord;
  /** In the order in which they were added. */
  parts: RunPart[];
  next: number | null;
}

export interface RunsQuery {
  pipeline: string;
  /** Only runs in this state. */
  state?: RunState | undefined;
  /** The `next` of the previous page. */
  after?: number | undefined;
  limit?: number | undefined;
}

/** `next` is not null if there is more. */
export interface RunsPage {
  runs: RunRecord[];
  next: number | null;
}

export interface ClaimCall {
  queues: string[];
  max: number;
  worker: string;
  /** First take at most this many from each queue, for fairness among queues. */
  share?: number | undefined;
  session?: number | undefined;
  lease?: number | undefined;
  /** How long to wait for the first task; 0: do not wait. */
  wait: number;
  signal?: AbortSignal | undefined;
}

export interface ClaimResult {
  tasks: ClaimedTask[];
  policies: Record<string, QueuePolicy>;
}

/** A claim, with what is needed to compute its backoff. */
export interface SettleRef extends ClaimRef {
  queue: string;
  attempt: number;
}

/** How a holder settles its claim. */
export type SettleCall = SettleOutcome & {
  /** The real cost in rate limits with a unit, if it differs from the task's cost. */
  spent?: number;
};

type SettleOutcome =
  /**
   * With `each`, the result is a JSON array, and each item becomes a part of the run. `next`: costs of the tasks that
   * follow in the run.
   */
  | { kind: "ack"; result: Body | null; adds?: Addition[]; each?: boolean; next?: NextCosts }
  /** Without `delay`, the queue's backoff decides. */
  | { kind: "nack"; error: TaskError; delay?: number | undefined; outcome?: "failed" | "timeout" }
  /**
   * Another system's limit was met: the attempt does not count, and the group, or the queue, waits for `delay` or the
   * backoff.
   */
  | { kind: "hold"; error: TaskError; delay?: number | undefined }
  | { kind: "reject"; error: TaskError }
  /** Returns the task to its position, now or after `delay`. The attempt does not count. */
  | { kind: "release"; started: boolean; delay?: number | undefined }
  /** Waits for a signal for at most `timeout`, and occupies no worker meanwhile. */
  | { kind: "park"; signal: string; timeout: number | null }
  /** A verifier's verdict about the result of another task. */
  | { kind: "accept"; of: Verified }
  | {
      kind: "refuse";
      of: Verified & { queue: string; attempt: number };
      feedback: string;
      keepSteps?: boolean;
    };

export type ClaimNotice =
  | { kind: "lost" | "timeout" | "cancel"; id: string; fence: number }
  | { kind: "gone" };

export interface ListQuery {
  queue: string;
  /** All states, one after the other, if absent. */
  state?: TaskState | undefined;
  /** Of dead tasks. */
  filter?: DeadFilter | undefined;
  /** Of tasks in any state. */
  match?: TaskMatch | undefined;
  after?: string | undefined;
  limit: number;
  /** `"full"`: complete payloads and results. Otherwise large ones are shortened and marked by `truncated`. */
  payloads?: Payloads | undefined;
}

/** Which page of a list: `after` is the `next` of the previous page. */
export interface PageQuery {
  after?: string | undefined;
  /** LIMITS.page unless set. */
  limit?: number | undefined;
}

export interface QueuesQuery extends PageQuery {
  queue?: string | undefined;
  stats?: boolean | undefined;
}

/**
 * A page ends at its limit or at about 4 MiB, whichever comes first. `next` is not null if there may be more; a page
 * with `next` can have fewer items than its limit.
 */
export interface Paged<Item> {
  items: Item[];
  next: string | null;
}

/** A page of tasks, bounded as Paged is. */
export interface Page {
  tasks: TaskRecord[];
  next: string | null;
  /** With `match`: how many tasks were compared for this page. */
  searched?: number;
  /** With `match`: the store's time. */
  now?: number;
}

export interface QueueSummary {
  name: string;
  policy: QueuePolicy;
  paused: boolean;
  createdAt: number;
  /** Only if the query asks for it. */
  stats?: QueueFigures;
}
