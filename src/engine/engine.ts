import type { TaskChange } from "../core/task/change.ts";
import type { ChildEnd, ChildRecord, NewChild, SpawnedTask } from "../core/handler/children.ts";
import type { ClaimStatus } from "../core/task/claim-call.ts";
import type { Reading } from "../core/time/clock.ts";
import type { ErrorData } from "../core/errors/errors.ts";
import type { Page, Paged, QueueSummary } from "../core/answer/page.ts";
import type { DeclareOutcome, NamedPolicy, QueuePolicy } from "../core/queue/policy.ts";
import type { ChangeOutcome } from "../core/port.ts";
import type { Payloads } from "../core/answer/preview.ts";
import type { RunPart, RunRecord, RunState } from "../core/run/run.ts";
import type { TaskMatch } from "../core/task/task-match.ts";
import type {
  AddedTask,
  Attempt,
  Body,
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
} from "../core/task/task.ts";
import type { Verified } from "../core/handler/verification.ts";
import type { ClaimOutcome, ClaimRequest } from "./claim-request.ts";
import type { DocumentChange, DueDocument, StoredDocument } from "./documents.ts";
import type { Hint, Notice } from "./hint.ts";
import type { Settlement } from "./settlement.ts";

/**
 * The engine contract: durable, atomic state transitions, and nothing else.
 *
 * The broker sends an engine batches of operations. The engine executes them in order and commits once; `execute`
 * resolves when that commit is on disk. Each operation has its own outcome: a refused one changes nothing and does not
 * affect the others. If the commit itself fails, `execute` rejects, and nothing of the batch has happened.
 *
 * Durations, not instants, cross the contract: the engine adds its own current time (core/time/engine-time.ts).
 */
export interface Engine {
  execute<const Ops extends readonly Op[]>(ops: Ops): Promise<Outcomes<Ops>>;

  /**
   * Reports what commits made possible, in this process or in others. Hints may be late, repeated or lost; a slow poll
   * covers the lost ones. There is one listener.
   */
  onHint(listener: (hint: Hint) => void): void;

  /**
   * Executes one operation in the caller's transaction, on the caller's connection. If that is rolled back, nothing has
   * happened. If it commits, waiting callers learn of it. The only settlement that is possible here is `done`. Absent
   * if the store cannot join other transactions.
   */
  executeInTransaction?<V extends TransactionVerb>(tx: unknown, op: Op<V>): Promise<Outcome<V>>;

  /** Batches that may be in progress at once. Beyond that, it is better to collect calls for the next batch. */
  readonly depth: number;

  /** Where the store is, as its errors name it: a file path or an address. A server does not show it to clients. */
  readonly address?: string;

  /** The engine will be closed after the batches in progress: do not keep retrying a store that cannot be reached. */
  stopRetrying?(): void;

  close(): Promise<void>;
}

/**
 * The core of an engine: the same verbs, but synchronous and without a clock of its own. The simulation calls it
 * directly. An engine adds a thread, heartbeats and hints to it.
 */
export interface Store {
  execute<const Ops extends readonly Op[]>(
    ops: Ops,
    reading: Reading,
  ): { outcomes: Outcomes<Ops>; hint: Hint };
}

/** Every verb: its input and its answer. */
export interface Verbs {
  // ── Queues ──────────────────────────────────────────────────────────────────────────────────────────────
  /**
   * Creates the queue if it is new, and applies the named fields to its policy. Skipped if the same declaration was the
   * last one applied that names one of its fields, so that a restart does not undo what an operator has changed since.
   * An operator passes `force`. With `create`, an existing queue is left unchanged; the answer contains its current
   * policy.
   */
  declare: Verb<{ queue: string; policy: NamedPolicy } & DeclareMode, Declared>;
  /** A paused queue accepts tasks and hands none out. Creates the queue if it is new. */
  pause: Verb<{ queue: string; paused: boolean }, { changed: boolean }>;
  /**
   * Ends early a hold that a settlement with `hold` began, for a group or for the queue itself. Answers whether there
   * was one.
   */
  unhold: Verb<{ queue: string; groupKey?: string }, { lifted: boolean }>;
  /** By name, with resolved policies: a page, or the one with this name; with `stats`, also the figures of each. */
  queues: Verb<{ queue?: string; stats?: boolean } & PageRequest, Paged<QueueSummary>>;
  /**
   * Removes tasks that are not claimed and have not ended, at most `limit`. The first call passes no `upTo` and gets
   * one. Repeating the call with it until `more` is false does not remove tasks that were added since.
   */
  purge: Verb<
    { queue: string; upTo?: number; limit: number },
    { removed: number; upTo: number; more: boolean }
  >;
  /**
   * Removes a queue with all its tasks, including dead letters and claims; at most `limit` tasks per call. The first
   * call removes its subscriptions, so that nothing more is published to it.
   */
  drop: Verb<{ queue: string; limit: number }, { removed: number; more: boolean }>;

  // ── Topics ──────────────────────────────────────────────────────────────────────────────────────────────
  /**
   * Creates the subscription if it is new, and its queue. Every publish to a matching topic, in any process, that
   * begins after this has resolved reaches it.
   */
  subscribe: Verb<{ pattern: string; group: string; queue: string }, { created: boolean }>;
  /** A publish that begins after this has resolved does not reach it. Its queue stays, with its tasks. */
  unsubscribe: Verb<{ pattern: string; group: string }, { removed: boolean }>;
  /** A page of all subscriptions, or of those that a topic reaches, in the order in which they were created. */
  subscriptions: Verb<{ topic?: string } & PageRequest, Paged<SubscriptionRecord>>;
  /**
   * Adds a task to the queue of every subscription whose pattern matches, in the order in which these were created,
   * with the topic in a header. Adds none if none matches, and only one if several lead to the same queue. All or none,
   * as with `add`: if one queue refuses its copy, the publish is refused.
   */
  publish: Verb<{ message: NewMessage }, AddedTask[]>;

  // ── Tasks ───────────────────────────────────────────────────────────────────────────────────────────────
  /** All or none. Creates queues that are new. */
  add: Verb<{ tasks: NewTask[] }, AddedTask[]>;
  /**
   * Claims up to `max` tasks from the queues in the given order. With `share`, each gives at most that many first, and
   * the rest is divided between those that gave so many (claim-rounds.ts). Within a queue: priority, then arrival. A
   * claim with a `session` lives while that session sends heartbeats, and at most for the queue's timeout; one without
   * has its own lease. Getting a task counts as a heartbeat. A session without a heartbeat for its whole lease is
   * refused with CLAIM_LOST. Expired leases and due tasks are processed first. The queue's limits (concurrency, rates,
   * hours) apply to all workers together. The tasks
   * have about LIMITS.answerBytes in total, or there is only one: `more` says that others did not fit.
   */
  claim: Verb<ClaimRequest, ClaimOutcome>;
  /**
   * Fenced: refused with CLAIM_LOST unless this claim is valid. A task with a requested cancel ends cancelled, whatever
   * the settlement.
   */
  settle: Verb<
    /** `spent`: the real cost in rate limits with a unit, if it differs from the task's cost. */
    { id: string; fence: number; settlement: Settlement; spent?: number },
    { state: TaskState }
  >;
  /** Fenced. From now on: the lease of a manual claim, the timeout of a session's claim. */
  extend: Verb<{ id: string; fence: number; lease: number }, ClaimStatus>;
  /**
   * Fenced. A `value` replaces the last one; null leaves it unchanged. `log` is appended to the log of the attempt. A
   * task keeps its last LIMITS.logLines lines.
   */
  progress: Verb<
    { id: string; fence: number; value: number | null; note: string | null; log?: string },
    ClaimStatus
  >;
  /** Fenced. Stores the result of a step of the handler. Replaces an earlier result of that name. */
  step: Verb<{ id: string; fence: number; name: string; value: Body | null }, null>;
  /**
   * Fenced. Adds children of the task, now and not with its end: all or none. A child that was spawned before under the
   * same name is answered as it is, and its payload is not compared (core/handler/children.ts). Refused with INVALID if
   * that child is in another queue, and with TASK_CANCELLED if a cancel was requested.
   */
  spawn: Verb<{ id: string; fence: number; children: NewChild[] }, SpawnedTask[]>;
  /**
   * The children of a task, in the order of their numbers; `after` is the `next` of the previous page. With `ends`, also
   * results and errors, which are kept while the parent exists. A page ends at its limit or at about
   * LIMITS.answerBytes.
   */
  children: Verb<
    { id: string; after?: number; limit: number; ends?: true },
    { children: (ChildRecord | ChildEnd)[]; next: number | null }
  >;
  /** What a handler needs when it starts again, by kind and name. */
  steps: Verb<{ id: string }, Step[]>;
  /**
   * Stores one signal of each name until the task has ended. A second signal of a name, or one after the end, is not
   * stored. A signal of a run reaches its tasks that are parked for it now, and other tasks when they park for it.
   */
  signal: Verb<
    { id: string; name: string; value: Body | null; of?: "runs" },
    { kept: boolean; state: TaskState | RunState }
  >;
  /** What a verifier decides about: the task and its result. TASK_NOT_FOUND if no result waits. */
  verifying: Verb<Verified, { task: TaskRecord; result: Body | null }>;
  /** Ends a pending task. For a claimed one, asks the holder to stop, and makes sure that it ends cancelled. */
  cancel: Verb<{ id: string }, { state: TaskState }>;
  /**
   * Changes a task that is not claimed, or makes an ended task run again: core/task/change.ts. Refused with WRONG_STATE
   * if its state does not allow it. `changed` is false if the task already had these values.
   */
  change: Verb<{ id: string; change: TaskChange }, ChangeOutcome>;
  get: Verb<{ id: string }, TaskRecord>;
  /**
   * For callers that wait: one answer per id. Cheap, because it is called often. A run with a dead part counts as
   * ended. Answers as many of the first ids as fit into LIMITS.answerBytes, and at least one: call again for the
   * others.
   */
  ends: Verb<{ ids: string[]; of?: "runs" }, (TaskEnd | "pending" | "missing")[]>;
  /**
   * The ledger, oldest first. Redrives can make it arbitrarily long: it contains the latest LIMITS.page attempts, and
   * of these as many as fit into LIMITS.answerBytes. With errors of the largest size that is 170.
   */
  history: Verb<{ id: string }, Attempt[]>;
  /**
   * Tasks of one state, oldest first (dead tasks in the order of their deaths). `after` is the `next` of the previous
   * page. A page ends at its limit or at about LIMITS.answerBytes, and has at least one task if there is one. No more
   * than a page is read into memory. Payloads and results above LIMITS.previewAbove are shortened to their first
   * LIMITS.preview characters and marked by `truncated`, unless `payloads` asks for them in full. With `match`, only
   * some of them (core/task/task-match.ts); a page then compares at most BOUNDS.search tasks, and may be empty although
   * there are more.
   */
  list: Verb<ListRequest, Page>;

  // ── Runs ────────────────────────────────────────────────────────────────────────────────────────────────
  /**
   * A run and its tasks, in the order in which they were added; `after` is the `next` of the previous page. Its id is
   * that of its first task, so an unknown id is TASK_NOT_FOUND. Ended runs are stored as long as ended tasks of their
   * first queue.
   */
  run: Verb<
    { id: string; after?: number; limit: number },
    { run: RunRecord; parts: RunPart[]; next: number | null }
  >;
  /**
   * Runs of a pipeline, or those in one state, the latest first; `after` is the `next` of the previous page. A page ends at its limit or at
   * about LIMITS.answerBytes.
   */
  runs: Verb<
    { pipeline: string; state?: RunState; after?: number; limit: number },
    { runs: RunRecord[]; next: number | null }
  >;
  /**
   * Cancels all tasks of a run that have not ended. Cancelling one of them does the same. If one expires, or is purged
   * or discarded, the others are cancelled too: such a run can have no result.
   */
  cancelRun: Verb<{ id: string }, { state: RunState }>;

  // ── Dead letters ────────────────────────────────────────────────────────────────────────────────────────
  /**
   * The most frequent first, each with its latest error; at most `limit`, and as many as fit into LIMITS.answerBytes.
   * With the largest errors and patterns that is 100.
   */
  patterns: Verb<{ queue: string; by: PatternKey; limit: number }, DeadPattern[]>;
  /**
   * Makes dead tasks ready again at the end of the line, the n-th after n × spacing milliseconds. Failures are reset,
   * and the ledger stays. Steps stay too, unless `fresh` is set.
   */
  redrive: Verb<{ queue: string; filter: DeadFilter; spacing: number; fresh?: boolean }, { count: number }>;
  discard: Verb<{ queue: string; filter: DeadFilter }, { count: number }>;

  // ── Sessions ────────────────────────────────────────────────────────────────────────────────────────────
  /** A worker starts. The engine sends the session's heartbeats from here on, off the event loop, until it leaves. */
  join: Verb<{ worker: WorkerInfo; lease: number }, { session: number }>;
  /** Heartbeats. Also ends claims that are past their timeout, and fetches notices. */
  heartbeat: Verb<{ sessions: number[] }, { notices: Notice[] }>;
  /**
   * `fences` are the claims that the session's worker knows of. The answer with its other claims was lost: their tasks
   * return as if they had never been claimed.
   */
  reconcile: Verb<{ session: number; fences: number[] }, { released: number }>;
  /**
   * Continues a session in this process after the process that sent its heartbeats is gone (a server was restarted).
   * The session gets a new number, so that later operations under the old number are refused, and it is reconciled.
   * `lost`: the fences that are no longer held. Refused with CLAIM_LOST if the session is gone.
   */
  rejoin: Verb<{ session: number; fences: number[] }, { session: number; lease: number; lost: number[] }>;
  /**
   * The worker claims no more: from here on no tasks are reserved for it, neither tasks of its sticky groups nor tasks
   * that other workers failed. Its heartbeats continue, and it keeps its claims.
   */
  retire: Verb<{ session: number }, null>;
  /** A worker stops, and its claims are released. With `lost`, it was given up, and its claims count as failed. */
  leave: Verb<{ session: number; lost?: boolean }, { released: number }>;
  /** A page of the workers with heartbeats, or of those that serve a queue, in the order in which they joined. */
  workers: Verb<{ queue?: string } & PageRequest, Paged<WorkerRecord>>;

  // ── Small documents ─────────────────────────────────────────────────────────────────────────────────────
  /**
   * A value that many processes share and few change, by kind and name; null removes it. Answers the previous value.
   * With `expect`, nothing happens unless that is the previous value (null: none): of several processes that read the
   * same document, only one changes it. `adds` commit with it, or not at all.
   */
  put: Verb<DocumentChange, { before: string | null }>;
  /** By name: a page of a kind, or the one with this name. */
  documents: Verb<{ kind: string; name?: string } & PageRequest, Paged<StoredDocument>>;

  // ── Housekeeping ────────────────────────────────────────────────────────────────────────────────────────
  /**
   * Processes a bounded amount of what is due: expired leases, due tasks, times-to-live. `next`: milliseconds until
   * something is due, 0 if some due work is left, null if nothing is known to become due. `due`: a bounded number of
   * documents that are due. They stay due until they are put again, because the engine does not know what to do with
   * them.
   */
  housekeep: Verb<Record<never, never>, { next: number | null; now: number; due: DueDocument[] }>;
  /** Removes up to `limit` ended tasks past their retention, as many runs, and outdated keys, events and rates. */
  prune: Verb<{ limit: number }, { removed: number; more: boolean }>;
  stats: Verb<{ queue: string }, QueueStats>;
  /**
   * Registers a listener for a while, and returns the events since `after` (null: from now on). A listener whose
   * registration has expired has missed an unknown number of events.
   */
  listen: Verb<{ listener: string; after: number | null; limit: number }, EventsAfter>;
  unlisten: Verb<{ listener: string }, null>;
}

export interface EventsAfter {
  /** Each a `DibsEvent` as JSON, with its type first. A gap event covers events that are missing between others. */
  events: string[];
  /** The number of the last event that they cover. */
  cursor: number;
  /** Events that are missing before the first. */
  missed: number;
}

/** At most one of these is set. */
export interface DeclareMode {
  force?: boolean;
  create?: boolean;
}

export interface Declared {
  policy: QueuePolicy;
  outcome: DeclareOutcome;
}

export interface ListRequest {
  queue: string;
  state: TaskState;
  filter?: DeadFilter;
  match?: TaskMatch;
  after?: string;
  limit: number;
  payloads?: Payloads;
}

/**
 * Which page of a list. `after` is the `next` of the previous page. A page ends at its limit or at about
 * LIMITS.answerBytes, and has at least one item if there is one. No more than a page is read into memory.
 */
export interface PageRequest {
  after?: string;
  limit: number;
}

interface Verb<In, Out> {
  in: In;
  out: Out;
}

export type VerbName = keyof Verbs;
/** Verbs that can be part of the caller's transaction. */
export type TransactionVerb = "add" | "publish" | "settle";
export type Op<V extends VerbName = VerbName> = V extends VerbName ? { verb: V } & Verbs[V]["in"] : never;
export type Outcome<V extends VerbName = VerbName> = V extends VerbName
  ? { ok: Verbs[V]["out"] } | { refused: ErrorData }
  : never;
export type Outcomes<Ops extends readonly Op[]> = { [I in keyof Ops]: Outcome<Ops[I]["verb"]> };

/** These change nothing, and may be answered while a commit is in progress. */
export const READING_VERBS: ReadonlySet<VerbName> = new Set([
  "queues",
  "subscriptions",
  "get",
  "ends",
  "steps",
  "children",
  "verifying",
  "history",
  "list",
  "patterns",
  "workers",
  "stats",
  "run",
  "runs",
  "documents",
]);
