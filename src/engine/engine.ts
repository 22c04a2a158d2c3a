import type { Reading } from "../core/clock.ts";
import type { ErrorData } from "../core/errors.ts";
import type { DibsEvent, ScheduleEventType } from "../core/events.ts";
import type { DeclareOutcome, NamedPolicy, QueuePolicy } from "../core/policy.ts";
import type { Payloads } from "../core/preview.ts";
import type { RunPart, RunRecord, RunState } from "../core/run.ts";
import type { NextCosts } from "../core/stage-cost.ts";
import type { Verified } from "../core/verification.ts";
import type {
  AddedTask,
  Addition,
  Attempt,
  Body,
  ClaimedTask,
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
} from "../core/task.ts";

/**
 * The engine contract: durable, atomic state transitions, and nothing else.
 *
 * An engine is asked in batches of operations. It carries them out in order and commits once; `run` resolves
 * when that commit is on disk. Each operation gets an outcome of its own: one that is refused changes nothing
 * and leaves the others alone. When the commit itself fails, `run` rejects, and nothing of the batch happened.
 *
 * Durations, not instants, cross the contract: the engine adds its own now (core/engine-time.ts).
 */
export interface Engine {
  execute<const Ops extends readonly Op[]>(ops: Ops): Promise<Outcomes<Ops>>;

  /**
   * Tells what commits made possible, here or in other processes. Hints may be late, doubled or missing; a
   * slow poll covers for the missing ones. One listener.
   */
  onHint(listener: (hint: Hint) => void): void;

  /**
   * One operation within a transaction of the caller's, on the caller's own connection: rolled back it was never seen,
   * committed it is told to those who wait. Of settlements only `done` can be had so. Absent where the store cannot
   * take part in others' transactions.
   */
  executeInTransaction?<V extends TransactionVerb>(tx: unknown, op: Op<V>): Promise<Outcome<V>>;

  /** Batches that may be under way at once; above that, calls are better gathered into the next one. */
  readonly depth: number;

  /** Where the store is, as its failures name it: a file's path, or an address. Clients of a server are not told. */
  readonly address?: string;

  /** It will be closed when what is under way has ended: what cannot be reached is not tried for much longer. */
  stopRetrying?(): void;

  close(): Promise<void>;
}

/**
 * An engine's heart: the same, but synchronous and without a clock of its own. The simulation drives it
 * directly; an engine wraps it with a thread, heartbeats and hints.
 */
export interface Store {
  execute<const Ops extends readonly Op[]>(
    ops: Ops,
    reading: Reading,
  ): { outcomes: Outcomes<Ops>; hint: Hint };
}

export interface Hint {
  /**
   * Tasks that a commit of this process added without telling a caller their ids, by queue: with a success, by a schedule, or
   * in a transaction of a caller's that it took up. Told once, with the commit.
   */
  added?: Record<string, number>;
  /** How many tasks became ready, by queue; without those that the same batch claimed. */
  ready?: Record<string, number>;
  /** A task ended otherwise than by a settle of this process: who waits for results should look. */
  ended?: boolean;
  /** Runs that ended, or some of which died: who waits for their results should look. */
  runs?: string[];
  /** Milliseconds until something is due that was not before: more of a limited queue, or group, may start then. */
  due?: number;
  /** For claims held here. */
  notices?: Notice[];
  /** Another process changed the store: anything may be different. */
  foreign?: boolean;
  /** The engine has asked anew for a claim that stands, before anybody asked it to. */
  retriedClaim?: RetriedClaim;
}

/** What a claim that stands got, or why it got nothing. */
export type RetriedClaim = { request: ClaimRequest } & ({ outcome: ClaimOutcome } | { error: Error });

/** Tells a worker what happened to a claim it holds, or (`gone`) that its session ended and all are lost. */
export type Notice =
  | { session: number; kind: "lost" | "timeout" | "cancel"; id: string; fence: number }
  | { session: number; kind: "gone" };

/** How a claim ends. `adds` commit with it or not at all; in a verified queue they are kept back until the verdict. */
export type Settlement =
  /**
   * Of a task of a run it also adds what comes next in that: core/run.ts. With `each` the result is a JSON array, and each
   * of its items a part of the run from here on. `next` says what the tasks cost that follow. INVALID for other tasks.
   */
  | { kind: "done"; result: Body | null; adds?: Addition[]; each?: true; next?: NextCosts }
  /** A failure: scheduled again after `delay`, or dead when it was the last attempt. */
  | { kind: "fail"; error: TaskError; delay: number; outcome?: "failed" | "timeout" }
  /** Dead at once. */
  | { kind: "reject"; error: TaskError }
  /**
   * It met a limit of somebody else's: back to its place, no attempt used up, and for `delay` none of its group starts; of
   * its whole queue, where it has no group.
   */
  | { kind: "hold"; error: TaskError; delay: number }
  /** Back to its place, no attempt used up. A task that was not `started` leaves no row in the ledger. */
  | { kind: "release"; started: boolean }
  /**
   * Waits for a signal, at its place and as the head of its group, until one comes or `timeout` has passed; back at once
   * where it came before. No attempt used up.
   */
  | { kind: "park"; signal: string; timeout: number | null }
  /** Of a verifier: on the result that an attempt at another task brought, if that still waits for it. */
  | ({ kind: "verdict"; of: Verified } & Verdict);

/**
 * Refused is a failed attempt: scheduled again after `delay`, without its steps but with its signals, or dead when it was
 * the last.
 */
export type Verdict = { accepted: true } | { accepted: false; feedback: string; delay: number };

/** Every verb: what it is given, and what it answers. */
export interface Verbs {
  // ── Queues ──────────────────────────────────────────────────────────────────────────────────────────────
  /**
   * Makes the queue if it is new, and lays the named fields over its policy. Skipped when the same declaration
   * was the last one applied that names one of its fields, so that a restart does not undo what an operator changed
   * since; `force` is that operator. `create` leaves a queue that exists as it is; the answer has the policy that is in
   * force.
   */
  declare: Verb<{ queue: string; policy: NamedPolicy } & DeclareMode, Declared>;
  /** A paused queue takes tasks and hands none out. Makes the queue if it is new. */
  pause: Verb<{ queue: string; paused: boolean }, { changed: boolean }>;
  /**
   * Ends before its time what a settlement with `hold` began: for a group, or for the queue itself. Answers whether there
   * was such a hold.
   */
  unhold: Verb<{ queue: string; groupKey?: string }, { lifted: boolean }>;
  /** All queues, by name; their policies resolved. */
  queues: Verb<{ queue?: string }, QueueRecord[]>;
  /**
   * Removes tasks that are not claimed and have not ended, at most `limit`. The first call gives no `upTo` and
   * is answered with one; repeating the call with it until `more` is false leaves alone what was added since.
   */
  purge: Verb<
    { queue: string; upTo?: number; limit: number },
    { removed: number; upTo: number; more: boolean }
  >;
  /**
   * Removes a queue with all it holds, dead letters and claims too; at most `limit` tasks a call. Its subscriptions go
   * with the first call: nothing more is published to it.
   */
  drop: Verb<{ queue: string; limit: number }, { removed: number; more: boolean }>;

  // ── Topics ──────────────────────────────────────────────────────────────────────────────────────────────
  /**
   * Makes the subscription if it is new, and its queue. Every publish to a matching topic that begins after this has
   * resolved, in any process, reaches it.
   */
  subscribe: Verb<{ pattern: string; group: string; queue: string }, { created: boolean }>;
  /** No publish that begins after this has resolved reaches it. Its queue stays, with what it holds. */
  unsubscribe: Verb<{ pattern: string; group: string }, { removed: boolean }>;
  /** All, or those that a topic reaches; in the order they were made. */
  subscriptions: Verb<{ topic?: string }, SubscriptionRecord[]>;
  /**
   * A task for the queue of every subscription whose pattern matches, in the order these were made, with the topic in a
   * header; none where none matches, and one where several lead to the same queue. All or none, as `add`: one queue that
   * refuses its copy refuses the publish.
   */
  publish: Verb<{ message: NewMessage }, AddedTask[]>;

  // ── Tasks ───────────────────────────────────────────────────────────────────────────────────────────────
  /** All or none. Makes queues that are new. */
  add: Verb<{ tasks: NewTask[] }, AddedTask[]>;
  /**
   * Up to `max` tasks from the queues in the given order; with `share`, first at most `share` from each, then
   * whatever is left. Within a queue: priority, then arrival. A claim with a `session` lives as long as that
   * session beats, and at most the queue's timeout; one without has a lease of its own. To get a task is a
   * sign of life too; a session that gave none for its whole lease is refused with CLAIM_LOST.
   * Expired leases and due tasks are dealt with first. Of a queue with limits no more than these allow: what its policy
   * says of concurrency, rates and hours holds for all workers together. Its tasks have about LIMITS.answerBytes together, or
   * are one: `more` says that others would not fit.
   */
  claim: Verb<ClaimRequest, ClaimOutcome>;
  /** Fenced: refused with CLAIM_LOST unless this claim holds. A cancelled task ends cancelled whatever is said. */
  settle: Verb<
    /** `spent`: what it really took of limits that have a unit, where that is not its cost. */
    { id: string; fence: number; settlement: Settlement; spent?: number },
    { state: TaskState }
  >;
  /** Fenced. From now: the lease of a claim by hand, the timeout of one by a session. */
  extend: Verb<{ id: string; fence: number; lease: number }, null>;
  /** Fenced. */
  progress: Verb<{ id: string; fence: number; value: number; note: string | null }, null>;
  /** Fenced. Keeps what a step of the handler returned, in place of what one of that name did. */
  step: Verb<{ id: string; fence: number; name: string; value: Body | null }, null>;
  /** What a handler that starts anew has to know, by kind and name. */
  steps: Verb<{ id: string }, Step[]>;
  /** One of each name is kept until the task has ended; later ones, or those that come too late, are not. */
  signal: Verb<{ id: string; name: string; value: Body | null }, { kept: boolean; state: TaskState }>;
  /** What a verifier is to judge: the result, and the task that it is of. TASK_NOT_FOUND where nobody waits for it. */
  verifying: Verb<Verified, { task: TaskRecord; result: Body | null }>;
  /** Ends a pending task; asks the holder of a claimed one to stop, and makes sure it ends cancelled. */
  cancel: Verb<{ id: string }, { state: TaskState }>;
  get: Verb<{ id: string }, TaskRecord>;
  /**
   * For those who wait: one answer an id. Light, and asked often. A run some of which is dead has ended so. Answers are
   * given for as many of the first as fit into LIMITS.answerBytes, for one at least: ask again for the others.
   */
  ends: Verb<{ ids: string[]; of?: "runs" }, (TaskEnd | "pending" | "missing")[]>;
  /**
   * The ledger, oldest first. Redrives make it longer without end: of a long one the latest LIMITS.page attempts, and of these
   * as many as fit into LIMITS.answerBytes. With errors of the largest size that is 170.
   */
  history: Verb<{ id: string }, Attempt[]>;
  /**
   * Tasks of one state, oldest first (the dead: latest death last). `after` is the `next` of the page before.
   * A page ends at its limit, or at about LIMITS.answerBytes; it has one task at least where there is one. No more than
   * that is read into memory for it. Payloads and results above LIMITS.previewAbove come as their first LIMITS.preview
   * characters, and `truncated` says so, unless they are asked for in full.
   */
  list: Verb<ListRequest, { tasks: TaskRecord[]; next: string | null }>;

  // ── Runs ────────────────────────────────────────────────────────────────────────────────────────────────
  /**
   * A run and its tasks, in the order they were added; `after` is the `next` of the page before. Its id is that of
   * its first task, and so TASK_NOT_FOUND where there is none. Ended runs are kept as long as ended tasks of their first queue.
   */
  run: Verb<
    { id: string; after?: number; limit: number },
    { run: RunRecord; parts: RunPart[]; next: number | null }
  >;
  /**
   * Cancels all tasks of a run that have not ended. So does the cancellation of one of them; and where one expires, is
   * purged or discarded, the others are cancelled too: such a run can have no result.
   */
  cancelRun: Verb<{ id: string }, { state: RunState }>;

  // ── Dead letters ────────────────────────────────────────────────────────────────────────────────────────
  /**
   * The most frequent first, each with its latest error; at most `limit`, and as many as fit into LIMITS.answerBytes. With the
   * largest errors and patterns that is 100.
   */
  patterns: Verb<{ queue: string; by: PatternKey; limit: number }, DeadPattern[]>;
  /**
   * Back to life, the n-th after n × spacing milliseconds: failures reset, ledger kept, at the tail. Its steps are kept
   * too, unless it is to start `fresh`.
   */
  redrive: Verb<{ queue: string; filter: DeadFilter; spacing: number; fresh?: boolean }, { count: number }>;
  discard: Verb<{ queue: string; filter: DeadFilter }, { count: number }>;

  // ── From one store to another ───────────────────────────────────────────────────────────────────────────
  /**
   * Hands out up to `limit` tasks that are to go to the store `to`, and holds them: from here on nobody claims, purges
   * or redrives them, they do not expire, and they stay so until they are `gone`. What was held before comes first, so
   * that a move that was interrupted goes on where it stopped. Those behind the head of a group come after it; while
   * the head is claimed, they do not. Claimed tasks are not handed out. Ended ones come last, and are not held.
   * Refused while tasks of the queue are on their way to another store; and with UNSUPPORTED while it holds tasks of runs
   * that are under way. A limit of 0 only looks whether it would be.
   */
  depart: Verb<{ queue: string; to: number; limit: number }, TravellingTask[]>;
  /**
   * Takes tasks in that another store has handed out, in the given order. One that came before is known by the id that
   * it had there, and not taken in again; one whose key is taken is the task that has it. No limit is kept to: they
   * were accepted once. The answer says which store this is, also when there are none.
   */
  arrive: Verb<{ tasks: TravellingTask[] }, { store: number; tasks: { id: string; existing: boolean }[] }>;
  /**
   * They have arrived: removes what `depart` handed out. One that somebody cancelled meanwhile is kept and answered,
   * unless `cancelled` says that the other store knows.
   */
  gone: Verb<{ tasks: { id: string; cancelled: boolean }[] }, { cancelled: string[] }>;
  /** The ids here of tasks that had these in the store they came from; null: no such task came. */
  origins: Verb<{ ids: string[] }, (string | null)[]>;

  // ── Sessions ────────────────────────────────────────────────────────────────────────────────────────────
  /** A worker starts. The engine beats the session from here on, off the event loop, until it leaves. */
  join: Verb<{ worker: WorkerInfo; lease: number }, { session: number }>;
  /** Signs of life. Also ends claims that passed their timeout, and fetches notices. */
  heartbeat: Verb<{ sessions: number[] }, { notices: Notice[] }>;
  /**
   * What a session's worker knows it holds. Claims of others, handed out by an answer that was lost, go back as if never
   * claimed.
   */
  reconcile: Verb<{ session: number; fences: number[] }, { released: number }>;
  /**
   * A worker that beat through an opener that is gone, a server that was restarted, goes on through this one. Its
   * session gets a new number, so that nothing the other still says of it counts, and it is reconciled. `lost`: fences it
   * names and no longer holds. Refused with CLAIM_LOST where the session is gone.
   */
  rejoin: Verb<{ session: number; fences: number[] }, { session: number; lease: number; lost: number[] }>;
  /**
   * A worker takes no more: nothing is kept for it from here on, neither tasks of sticky groups nor what others failed. It
   * goes on beating, and what it holds stays its own.
   */
  retire: Verb<{ session: number }, null>;
  /** A worker stops; what it still holds is released. With `lost` it was given up: what it holds counts as failed. */
  leave: Verb<{ session: number; lost?: boolean }, { released: number }>;
  workers: Verb<{ queue?: string }, WorkerRecord[]>;

  // ── Small documents ─────────────────────────────────────────────────────────────────────────────────────
  /**
   * What many processes share and few change, by kind and name; null removes it. Answers what was there before. With
   * `expect` it happens only where that is what was there (null: nothing), and otherwise nothing of it does: of all who
   * saw the same document one changes it. `adds` commit with it, or not at all.
   */
  put: Verb<DocumentChange, { before: string | null }>;
  /** By name. */
  documents: Verb<{ kind: string; name?: string }, { name: string; value: string }[]>;

  // ── Care ────────────────────────────────────────────────────────────────────────────────────────────────
  /**
   * Deals with a bounded amount of what time brings: expired leases, due tasks, time-to-live.
   * `next`: milliseconds until there is something to do, 0 when some is left; null when nothing is known.
   * `due`: documents whose time has come, a bounded number. They stay so until they are put again: what is to happen with
   * them the engine does not know.
   */
  housekeep: Verb<Record<never, never>, { next: number | null; now: number; due: DueDocument[] }>;
  /** Removes up to `limit` ended tasks past their retention, as many runs, and forgets keys, events and rates out of date. */
  prune: Verb<{ limit: number }, { removed: number; more: boolean }>;
  stats: Verb<{ queue: string }, QueueStats>;
  /**
   * Registers a listener for a while, and returns what happened since `after` (null: from now on). One that was
   * forgotten meanwhile has missed something, though nobody knows how much.
   */
  listen: Verb<
    { listener: string; after: number | null; limit: number },
    { events: DibsEvent[]; cursor: number; missed: number }
  >;
  unlisten: Verb<{ listener: string }, null>;
}

/** At most one of them. */
export interface DeclareMode {
  force?: boolean;
  create?: boolean;
}

export interface Declared {
  policy: QueuePolicy;
  outcome: DeclareOutcome;
}

export interface ClaimRequest {
  queues: string[];
  max: number;
  /** The worker instance: a task is first offered to those that have not failed it. */
  worker: string;
  share?: number;
  session?: number;
  /** Of a claim by hand; the queue's own when absent. */
  lease?: number;
  /**
   * Whoever asks goes on waiting where nothing is found; a number that tells it from others. An engine that learns of
   * others' commits sooner than its caller may ask in its stead, and says so by a hint (`stood`).
   */
  waitingId?: number;
}

export interface ClaimOutcome {
  tasks: ClaimedTask[];
  /** The policies of the queues that tasks came from: what the worker needs to time and retry them. */
  policies: Record<string, QueuePolicy>;
  /** Tasks kept for other workers, because this one failed them. */
  passed: boolean;
  /** The bound on the work of one call, or on the size of its answer, was met before `max` was: ask again. */
  more: boolean;
}

export interface ListRequest {
  queue: string;
  state: TaskState;
  filter?: DeadFilter;
  after?: string;
  limit: number;
  payloads?: Payloads;
}

export interface DocumentChange {
  kind: string;
  name: string;
  value: string | null;
  expect?: string | null;
  /** When `tend` is to hand it out, by the engine's clock; never unless set. */
  dueAt?: number;
  adds?: Addition[];
  /** To be announced where it happens. */
  event?: { type: ScheduleEventType; queue: string; schedule: string };
}

export interface DueDocument {
  kind: string;
  name: string;
  value: string;
}

export interface QueueRecord {
  name: string;
  policy: QueuePolicy;
  paused: boolean;
  createdAt: number;
}

/** Bounds that both engines keep, so that no call takes long however much has piled up. */
export const BOUNDS = {
  /** Operations of one commit: more would make it long enough for others to notice. */
  commit: 2_000,
  /** Expired, due or outlived tasks that one call deals with, of each kind. */
  sweep: 1_000,
  /** Documents that one call hands out because their time has come. */
  due: 16,
  /** Retried tasks that a claim looks at to find those it may take. */
  retryScan: 32,
  /** Events kept for listeners that lag. */
  events: 10_000,
  /** Events that an engine writes at once, and a second. Above that it may only count them: event-allowance.ts. */
  eventBurst: 10_000,
  eventRate: 20_000,
  /** A listener is forgotten after this long (awake milliseconds); asking renews that once a third of it has passed. */
  listenerLease: 30_000,
  /** An idempotencyKey outlives its task's end by this. */
  keyAfterEnd: 86_400_000,
  /** Rates are counted in slots of this many milliseconds, and reported over a window of them. */
  rateSlot: 10_000,
  rateWindow: 60_000,
} as const;

interface Verb<In, Out> {
  in: In;
  out: Out;
}

export type VerbName = keyof Verbs;
/** Those that can be part of a transaction of the caller's. */
export type TransactionVerb = "add" | "publish" | "settle";
export type Op<V extends VerbName = VerbName> = V extends VerbName ? { verb: V } & Verbs[V]["in"] : never;
export type Outcome<V extends VerbName = VerbName> = V extends VerbName
  ? { ok: Verbs[V]["out"] } | { refused: ErrorData }
  : never;
export type Outcomes<Ops extends readonly Op[]> = { [I in keyof Ops]: Outcome<Ops[I]["verb"]> };

/** These change nothing, and may be answered beside a commit that is under way. */
export const READING_VERBS: ReadonlySet<VerbName> = new Set([
  "queues",
  "subscriptions",
  "get",
  "ends",
  "steps",
  "verifying",
  "history",
  "list",
  "patterns",
  "workers",
  "stats",
  "origins",
  "run",
  "documents",
]);
