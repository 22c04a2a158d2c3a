import type { StoredLine } from "../../core/handler/attempt-log.ts";
import type { Reading } from "../../core/time/clock.ts";
import { advanceTime, type EngineTime, startTime } from "../../core/time/engine-time.ts";
import type { ExpiryReason } from "../../core/queue/expired-to.ts";
import type { DibsEvent } from "../../core/event/events.ts";
import { isSilent } from "../../core/task/lease.ts";
import { type Flow, noFlow } from "../../core/queue/flow.ts";
import { type NamedPolicy, type QueuePolicy, resolvePolicy } from "../../core/queue/policy.ts";
import type { StageCounts } from "../../core/run/run.ts";
import type { RunStart } from "../../core/run/run.ts";
import type { NextCosts } from "../../core/run/stage-cost.ts";
import { taskNotFound } from "../../core/errors/task-not-found.ts";
import {
  type Addition,
  type Attempt,
  type Body,
  type DepthByState,
  type EndState,
  type Headers,
  NO_DEPTH,
  type Step,
  type SubscriptionRecord,
  type TaskError,
  type TaskState,
  type WorkerInfo,
} from "../../core/task/task.ts";
import { BOUNDS } from "../../engine/bounds.ts";
import type { Hint, Notice } from "../../engine/hint.ts";
import { NO_TRANSFER, type TransferState } from "../../engine/transfer.ts";
import { type Gate, type Lane, newGate } from "./lanes.ts";

/** The reference model's data: plain objects that verbs scan in full. Read this first to learn what an engine stores. */
export class Model {
  /** Part of every task's id. */
  store: number;
  /** Identifies the store in messages; unique in this process. */
  readonly label: string;
  /** Marks of exports, imports and moves: engine/transfer.ts. */
  transfer: TransferState = NO_TRANSFER;
  time: EngineTime;
  seq = 0;
  fence = 0;
  session = 0;
  readonly queues = new Map<string, ModelQueue>();
  /** In the order they were made. */
  subscriptions: ModelSubscription[] = [];
  /** The number of the last one. */
  subscribed = 0;
  readonly tasks = new Map<string, ModelTask>();
  readonly sessions = new Map<number, ModelSession>();
  notices: Notice[] = [];
  /** Awake milliseconds until which each listener is remembered. */
  readonly listeners = new Map<string, number>();
  eventSeq = 0;
  events: { n: number; event: DibsEvent }[] = [];
  readonly runs = new Map<string, ModelRun>();
  /** By kind, then by name. */
  readonly documents = new Map<string, Map<string, ModelDocument>>();
  hint: Hint = {};
  /** By the id of their parent, in the order of their numbers. */
  readonly families = new Map<string, ModelChild[]>();
  /** Tasks of which a child has just ended, and children whose parent has ended or has forgotten them: line.ts. */
  readonly relieved: string[] = [];
  readonly abandoned: string[] = [];
  /** Tasks that have just expired and continue in another queue: continue-expired.ts. */
  expired: { task: ModelTask; why: ExpiryReason }[] = [];

  constructor(store: number, reading: Reading) {
    this.store = store;
    this.label = `:memory: (${store})`;
    this.time = startTime(reading);
  }

  begin(reading: Reading): void {
    this.time = advanceTime(this.time, reading);
    this.hint = {};
  }

  get now(): number {
    return this.time.now;
  }

  get awake(): number {
    return this.time.awake;
  }

  queue(name: string): ModelQueue {
    let queue = this.queues.get(name);
    if (!queue) {
      queue = {
        name,
        named: {},
        declared: null,
        paused: false,
        createdAt: this.now,
        keys: new Map(),
        flow: new Map(),
        gate: newGate(),
        lanes: new Map(),
        reviewed: null,
      };
      this.queues.set(name, queue);
      this.announce({ type: "queue.created", at: this.now, queue: name });
    }
    return queue;
  }

  policy(name: string): QueuePolicy {
    return resolvePolicy(this.queues.get(name)?.named ?? {});
  }

  maxAttempts(task: ModelTask): number {
    return task.maxAttempts ?? this.policy(task.queue).maxAttempts;
  }

  task(id: string): ModelTask {
    const task = this.tasks.get(id);
    if (!task) throw taskNotFound(id);
    return task;
  }

  tasksOf(queue: string, ...states: TaskState[]): ModelTask[] {
    return [...this.tasks.values()].filter((task) => task.queue === queue && states.includes(task.state));
  }

  depth(queue: string): DepthByState {
    const depth = { ...NO_DEPTH };
    for (const task of this.tasks.values()) if (task.queue === queue) depth[task.state]++;
    return depth;
  }

  /** What the rates are computed from: one row per queue and slot of time. */
  flow(queue: string): Flow {
    const { flow } = this.queue(queue);
    const slot = Math.floor(this.now / BOUNDS.rateSlot);
    if (!flow.has(slot)) flow.set(slot, noFlow());
    return flow.get(slot)!;
  }

  /** Whether a session is live and takes tasks of the queue. */
  serves(session: ModelSession, queue: string): boolean {
    return !session.retired && !isSilent(session, this.awake) && session.worker.queues.includes(queue);
  }

  hintReady(queue: string, count = 1): void {
    const ready = this.hint.ready ?? {};
    const before = Object.hasOwn(ready, queue) ? ready[queue]! : 0;
    if (count > 0) this.hint.ready = { ...ready, [queue]: before + count };
  }

  announce(event: DibsEvent): void {
    if (this.listeners.size === 0) return;
    this.events.push({ n: ++this.eventSeq, event });
  }
}

export interface ModelDocument {
  value: string;
  dueAt: number | null;
}

export interface ModelQueue {
  name: string;
  /** The fields of the policy that were set; the others have their defaults. */
  named: NamedPolicy;
  /** The last declaration applied, as JSON. */
  declared: string | null;
  paused: boolean;
  createdAt: number;
  keys: Map<string, ModelKey>;
  flow: Map<number, Flow>;
  gate: Gate;
  /** By key. */
  lanes: Map<string, Lane>;
  /** The last group that was reviewed after a change of the policy of groups (review.ts). Null: all of them. */
  reviewed: string | null;
}

export interface ModelKey {
  id: string;
  /** Set when its task has ended: the key is free again from then on. */
  forgetAt: number | null;
  /** How the task ended: the key outlives the task. */
  state: EndState | null;
}

export interface ModelTask {
  seq: number;
  id: string;
  queue: string;
  state: TaskState;
  data: Body;
  contentType: string;
  headers: Headers;
  priority: number;
  groupKey: string | null;
  idempotencyKey: string | null;
  maxAttempts: number | null;
  cost: number | null;
  urgent: boolean;
  createdAt: number;
  expiresAt: number | null;
  /** Its position by arrival. Retries keep it, a redrive gives a new one. */
  pos: number;
  /** ready: its position in the line, which differs from `pos` if groups rotate. */
  place: number;
  failures: number;
  /** scheduled: when it is due. parked: its timeout, or null. */
  dueAt: number | null;
  /** parked: the signal it waits for. */
  waitsFor: string | null;
  steps: Step[];
  /** Whether it is a head of its group: the others wait behind it. */
  blocksGroup: boolean;
  /** ready, in the retry-elsewhere line: not for these workers, until then. */
  elsewhere: { until: number; avoid: string[] } | null;
  /** ready, in the sticky line: the session that had the last task of its group. */
  owner: number | null;
  claim: ModelClaim | null;
  /** verifying: the attempt whose result waits for a verdict, and what would be added. */
  pending:
    | (Pick<ModelClaim, "fence" | "worker" | "startedAt"> & {
        result: Body | null;
        adds: Addition[];
        each: boolean;
        next?: NextCosts | undefined;
        /** The verifier's task; null if none was added. */
        asked: string | null;
      })
    | null;
  /** Why the last result was refused. */
  feedback: string | null;
  run: { run: ModelRun; part: ModelPart } | null;
  /** What its parent knows of it. */
  child: ModelChild | null;
  ledger: Attempt[];
  /** What its handlers logged, oldest first. */
  log: StoredLine[];
  endedAt: number | null;
  result: Body | null;
  error: (TaskError & { fingerprint: string }) | null;
}

export interface ModelRun extends RunStart {
  id: string;
  /** The queue of its first task. */
  seq: number;
  queue: string;
  createdAt: number;
  /** How many of its tasks are not done. */
  underWay: number;
  /** Tasks that are not done, by stage, if its stages are a graph. */
  counts: StageCounts | null;
  state: Exclude<EndState, "dead"> | null;
  endedAt: number | null;
  result: Body | null;
  /** For all its tasks, by name. */
  signals: Map<string, Body | null>;
  /** In the order they were added. */
  parts: ModelPart[];
}

/** One task of a run; it outlives the task. */
export interface ModelPart {
  id: string;
  seq: number;
  queue: string;
  stage: string;
  part: number[];
  createdAt: number;
  /** Null: the task has not ended; its row has the state. */
  state: EndState | null;
  startedAt: number | null;
  endedAt: number | null;
  /** The result of a part that waits for the join. */
  awaitsJoin: { result: Body | null } | null;
}

/** A child of a task, as its parent knows it. It outlives the child, and is removed with the parent. */
export interface ModelChild {
  id: string;
  parent: string;
  /** Counts the children of the parent. */
  n: number;
  name: string;
  queue: string;
  createdAt: number;
  /** Null: it has not ended. */
  state: EndState | null;
  endedAt: number | null;
  /** Once the task is removed. */
  result: Body | null;
  error: (TaskError & { fingerprint: string }) | null;
}

export interface ModelClaim {
  fence: number;
  worker: string;
  session: number | null;
  startedAt: number;
  lease: number;
  /** Awake milliseconds. Manual claim: end of the lease. Claim of a session: end of the timeout. */
  deadline: number;
  cancelled: boolean;
  progress: { value: number; note: string | null } | null;
  /** The cost that the settlement reported. */
  spent: number | null;
}

export interface ModelSubscription extends SubscriptionRecord {
  id: number;
}

export interface ModelSession {
  id: number;
  worker: WorkerInfo;
  lease: number;
  joinedAt: number;
  /** Awake milliseconds of its last heartbeat. */
  heartbeatAt: number;
  /** It stops: it claims no more, so no task is reserved for it. */
  retired: boolean;
}
