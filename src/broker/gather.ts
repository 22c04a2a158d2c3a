import type { Commit } from "../core/commit.ts";
import { DibsError, errorFrom } from "../core/errors/errors.ts";
import { markStoreFault } from "../core/errors/store-fault.ts";
import { BOUNDS } from "../engine/bounds.ts";
import { type Engine, type Op, READING_VERBS, type VerbName, type Verbs } from "../engine/engine.ts";

interface Waiting {
  op: Op;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/**
 * A batch is sent once it has this weight, while more calls of the same moment are still being made: otherwise callers
 * and engine would alternate, each idle while the other works. The engine may coalesce the batches again.
 */
const BATCH_WEIGHT = 128;

/** The number of tasks that the operation is about, which is about what it costs. */
function weightOf(op: Op): number {
  if (op.verb === "add") return op.tasks.length;
  if (op.verb === "spawn") return op.children.length;
  return op.verb === "claim" ? op.max : 1;
}

/**
 * These verbs lock tasks that other workers may hold, so each is sent as a single batch. Two of them in one transaction
 * would lock one task and wait for another one, which a second transaction may have locked while it waits for the first.
 * PostgreSQL takes 1 s to end such a deadlock.
 */
const SINGLE: ReadonlySet<VerbName> = new Set(["signal", "cancel", "change"]);

/**
 * Each is sent in one batch with the operation that follows it. For a declaration, see #takeBatch. Documents are read by
 * a caller whose next operation depends on them. Alone, they would be a read for another thread, which waits for the
 * writes before it: the large adds of AMQP publishers were answered up to 6 ms later.
 */
const WITH_NEXT: ReadonlySet<VerbName> = new Set(["declare", "documents"]);

export interface GathererListener {
  /** Called before the waiting calls are sent. Calls that it makes are added to the end of the batch. */
  onSend(waiting: readonly { op: Op }[]): void;
  onCommit(ops: readonly Op[]): void;
  /** Gets every committed batch. */
  measure?: ((commit: Commit) => void) | undefined;
}

/**
 * Coalesces calls of the same moment into batches, so that many callers share one commit. Each caller still gets its own
 * answer. While the engine has its maximum of batches in progress, calls wait here. The order of calls is kept, except
 * that claims of workers move behind settlements of the same moment.
 */
export class Gatherer {
  readonly #engine: Engine;
  readonly #listener: GathererListener;
  #waiting: Waiting[] = [];
  #weight = 0;
  /** How many of the waiting calls must be single. */
  #singles = 0;
  #inProgress = 0;
  #isFlushScheduled = false;
  #isFlushing = false;
  #closed = false;
  #idle: (() => void) | undefined;

  constructor(engine: Engine, listener: GathererListener) {
    this.#engine = engine;
    this.#listener = listener;
  }

  run<V extends VerbName>(op: Op<V>): Promise<Verbs[V]["out"]> {
    if (this.#closed)
      return Promise.reject(new DibsError("CLOSED", "This dibs was closed. Call open() for a new one."));
    const weight = weightOf(op);
    // A large operation must not delay the answers to earlier ones.
    if (weight >= BATCH_WEIGHT && !this.#isFlushing && !this.#belongsToNext()) this.#flush();
    return new Promise((resolve, reject) => {
      this.#waiting.push({ op, resolve, reject });
      this.#weight += weight;
      if (SINGLE.has(op.verb)) this.#singles++;
      // onSend makes this call: the flush in progress sends it.
      if (this.#isFlushing) return;
      if (this.#weight >= BATCH_WEIGHT && op.verb !== "declare") this.#flush();
      else this.#scheduleFlush();
    });
  }

  #belongsToNext(): boolean {
    const last = this.#waiting.at(-1);
    return last !== undefined && WITH_NEXT.has(last.op.verb);
  }

  /** Refuses new calls, and resolves when all earlier ones are answered. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#waiting.length === 0 && this.#inProgress === 0) return;
    await new Promise<void>((resolve) => (this.#idle = resolve));
  }

  #scheduleFlush(): void {
    if (this.#isFlushScheduled || this.#inProgress >= this.#engine.depth) return;
    this.#isFlushScheduled = true;
    // Waits for the promise callbacks of this turn: a caller that was just answered may make its next call in one.
    setImmediate(() => {
      this.#isFlushScheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (this.#waiting.length === 0 || this.#inProgress >= this.#engine.depth) return;
    this.#isFlushing = true;
    this.#listener.onSend(this.#waiting);
    this.#isFlushing = false;
    const batch = this.#takeBatch();
    const ops = batch.map((waiting) => waiting.op);
    this.#inProgress++;
    const began = performance.now();
    this.#engine
      .execute(ops)
      .then(
        (outcomes) => {
          this.#measure(ops, began);
          return answer(batch, outcomes);
        },
        (error: unknown) => {
          markStoreFault(error, this.#engine.address);
          for (const waiting of batch) waiting.reject(error);
        },
      )
      .finally(() => {
        this.#inProgress--;
        this.#listener.onCommit(ops);
        if (this.#waiting.length > 0) this.#scheduleFlush();
        else if (this.#inProgress === 0) this.#idle?.();
      });
    if (this.#waiting.length > 0) this.#scheduleFlush();
  }

  #measure(ops: readonly Op[], began: number): void {
    const { measure } = this.#listener;
    if (measure && ops.some(({ verb }) => !READING_VERBS.has(verb)))
      measure({ operations: ops.length, ms: performance.now() - began });
  }

  /**
   * Removes the calls of the next batch. A declaration commits with the operation after it, so no batch ends with one,
   * unless all are declarations (a worker of thousands of queues): then the last one is left to the next batch.
   */
  #takeBatch(): Waiting[] {
    const most = Math.min(this.#waiting.length, BOUNDS.commit, this.#untilSingle());
    let size = most;
    while (size > 0 && size < this.#waiting.length && this.#waiting[size - 1]!.op.verb === "declare") size--;
    if (size === 0) size = Math.max(most - 1, 1);
    const batch = this.#waiting.splice(0, size);
    for (const { op } of batch) this.#weight -= weightOf(op);
    if (batch.length === 1 && SINGLE.has(batch[0]!.op.verb)) this.#singles--;
    return settlementsFirst(batch);
  }

  /** How many calls may be in the batch: those before the first single one, or 1 if the single one is next. */
  #untilSingle(): number {
    if (this.#singles === 0) return Number.POSITIVE_INFINITY;
    return Math.max(
      1,
      this.#waiting.findIndex(({ op }) => SINGLE.has(op.verb)),
    );
  }
}

/**
 * Moves claims of workers behind the settlements that follow them. If many workers each settle a task and claim the next
 * one, the engine then executes all settlements in bulk, and all claims. Calls of different workers have no order, so a
 * worker may even claim a task that another worker released later in the same batch.
 */
function settlementsFirst(batch: Waiting[]): Waiting[] {
  const sorted: Waiting[] = [];
  let claims: Waiting[] = [];
  for (const waiting of batch) {
    const { op } = waiting;
    const isOfWorker = op.verb === "claim" && op.session !== undefined;
    if (isOfWorker) {
      claims.push(waiting);
      continue;
    }
    if (op.verb !== "settle") {
      sorted.push(...claims);
      claims = [];
    }
    sorted.push(waiting);
  }
  sorted.push(...claims);
  return sorted;
}

function answer(batch: Waiting[], outcomes: readonly object[]): void {
  for (let index = 0; index < batch.length; index++) {
    const waiting = batch[index]!;
    const outcome = outcomes[index] as { ok: unknown } | { refused: Parameters<typeof errorFrom>[0] };
    if ("ok" in outcome) waiting.resolve(outcome.ok);
    else waiting.reject(errorFrom(outcome.refused));
  }
}
