import { type NamedPolicy, type QueuePolicy, resolvePolicy } from "../../../src/core/queue/policy.ts";
import type {
  Addition,
  AttemptOutcome,
  Body,
  EndState,
  NewTask,
  WorkerInfo,
} from "../../../src/core/task/task.ts";
import { keyExpiresAt } from "../../../src/core/task/idempotency.ts";
import type { Notice } from "../../../src/engine/hint.ts";
import type { ExpectedTime } from "../machine.ts";

interface DocumentBook {
  kind: string;
  name: string;
  value: string;
  dueAt: number | null;
}

/** The driver's own books: what it was promised, recorded from answers and never read from a store. */
export class Books {
  readonly time: ExpectedTime;
  readonly entries = new Map<string, Entry>();
  /** Tasks that were removed, and by which verb. None may come back. */
  readonly gone = new Map<string, string>();
  readonly queues = new Map<string, QueueBook>();
  /** In the order of creation. */
  subscriptions: SubscriptionBook[] = [];
  subscribed = 0;
  readonly documents = new Map<string, DocumentBook>();
  readonly sessions = new Map<number, SessionBook>();
  notices: Notice[] = [];
  arrivals = 0;
  /** The counter of arrivals when a purge began, by the number in its answer. */
  readonly purges = new Map<number, number>();

  constructor(time: ExpectedTime) {
    this.time = time;
  }

  get now(): number {
    return this.time.now;
  }

  get awake(): number {
    return this.time.awake;
  }

  queue(name: string): QueueBook {
    let queue = this.queues.get(name);
    if (!queue) {
      queue = { named: {}, declared: null, paused: false, keys: new Map(), flow: [] };
      this.queues.set(name, queue);
    }
    return queue;
  }

  policy(name: string): QueuePolicy {
    return resolvePolicy(this.queues.get(name)?.named ?? {});
  }

  maxAttempts(entry: Entry): number {
    return entry.task.maxAttempts ?? this.policy(entry.task.queue).maxAttempts;
  }

  heldBy(session: number): Entry[] {
    return [...this.entries.values()].filter((entry) => entry.holder?.session === session);
  }

  isAlive(session: SessionBook | undefined): session is SessionBook {
    return session !== undefined && session.heartbeatAt + session.lease > this.awake;
  }

  /** The task that a key currently belongs to. */
  keyHolder(queue: string, key: string): KeyBook | undefined {
    const book = this.queues.get(queue)?.keys.get(key);
    return book && (book.end === null || this.now < keyExpiresAt(book.end.at)) ? book : undefined;
  }

  isOutlived(entry: Entry): boolean {
    return entry.expiresAt !== null && entry.expiresAt <= this.now;
  }

  /** Whether the lease of a claim has ended, in awake time. */
  isLapsed({ holder }: Entry): boolean {
    if (!holder) return false;
    if (holder.session === null) return holder.deadline <= this.awake;
    return this.sessions.get(holder.session)!.heartbeatAt + holder.lease <= this.awake;
  }

  /** Whether another worker could do it: a live worker of its queue that has not failed it. */
  hasOtherWorker(entry: Entry): boolean {
    return [...this.sessions.values()].some(
      (session) =>
        this.isAlive(session) &&
        !session.retired &&
        session.worker.queues.includes(entry.task.queue) &&
        !entry.failedBy.includes(session.worker.id),
    );
  }

  forget(entry: Entry, verb: string, options: { freeKey: boolean }): void {
    this.entries.delete(entry.id);
    this.gone.set(entry.id, verb);
    const { queue, idempotencyKey } = entry.task;
    const keys = this.queues.get(queue)?.keys;
    if (options.freeKey && idempotencyKey !== undefined && keys?.get(idempotencyKey)?.id === entry.id) {
      keys.delete(idempotencyKey);
    }
  }
}

export interface Entry {
  id: string;
  /** As it was added. */
  task: NewTask;
  createdAt: number;
  expiresAt: number | null;
  /** Its number among all tasks ever added. */
  order: number;
  /** Its position in the line. */
  arrival: number;
  failures: number;
  /** The workers that failed it since it was added or redriven. */
  failedBy: string[];
  holder: Holder | null;
  /** Its result waits for a verdict. */
  pending: { holder: Holder; result: Body | null; adds: Addition[] } | null;
  feedback: string | undefined;
  lastFence: number;
  rows: Row[];
  blocksGroup: boolean;
  /** Until then, workers that failed it may not have it. */
  keptUntil: number | null;
  /** Its steps and signals, by kind and name. */
  steps: Map<string, Body | null>;
}

export interface Holder {
  fence: number;
  worker: string;
  session: number | null;
  startedAt: number;
  lease: number;
  /** Awake milliseconds: end of the lease of a manual claim, end of the timeout of a session's claim. */
  deadline: number;
  cancelled: boolean;
}

export interface Row {
  attempt: number;
  fence: number;
  worker: string;
  startedAt: number;
  endedAt: number;
  outcome: AttemptOutcome;
}

export interface QueueBook {
  named: NamedPolicy;
  declared: string | null;
  paused: boolean;
  keys: Map<string, KeyBook>;
  flow: { at: number; what: "added" | "done" | "failed" }[];
}

export interface SubscriptionBook {
  id: number;
  pattern: string;
  group: string;
  queue: string;
  createdAt: number;
}

export interface KeyBook {
  id: string;
  end: { at: number; state: EndState } | null;
}

export interface SessionBook {
  worker: WorkerInfo;
  lease: number;
  heartbeatAt: number;
  /** Retired: claims no more. */
  retired: boolean;
}
