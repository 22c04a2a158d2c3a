import type { Commit } from "../core/commit.ts";
import { DibsError, errorFrom } from "../core/errors.ts";
import { markStoreFault } from "../core/store-fault.ts";
import { BOUNDS, type Engine, type Op, READING_VERBS, type VerbName, type Verbs } from "../engine/engine.ts";

interface Waiting {
  op: Op;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/**
 * So much is sent at once, while the rest of the moment's calls are still being made: else callers and engine
 * would take turns, each idle while the other works. The engine may join again what was cut here.
 */
const ENOUGH = 128;

/** In the like of an operation on one task. */
function weightOf(op: Op): number {
  return op.verb === "add" ? op.tasks.length : op.verb === "claim" ? op.max : 1;
}

/**
 * These come from outside to what somebody else holds. In one commit with others of their kind they would hold one task and
 * wait for the next, while its holder has that and waits for the first: a database ends such a deadlock after a second.
 */
const ALONE: ReadonlySet<VerbName> = new Set(["signal", "cancel"]);

export interface GathererListener {
  /** Before what waits is sent: what is called here goes with it, behind it. */
  onSend(waiting: readonly { op: Op }[]): void;
  onCommit(ops: readonly Op[]): void;
  /** Told of every batch that was committed. */
  measure?: ((commit: Commit) => void) | undefined;
}

/**
 * Gathers the calls of a moment into batches: many callers, one commit. While the engine has its fill of
 * batches under way, calls collect here; each caller still gets its own answer. Order is kept, but for workers' claims, which
 * go behind what is settled in the same moment.
 */
export class Gatherer {
  readonly #engine: Engine;
  readonly #listener: GathererListener;
  #waiting: Waiting[] = [];
  #weight = 0;
  /** How many of those that wait go alone. */
  #alone = 0;
  #underWay = 0;
  #flushAsked = false;
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
    // What takes long by itself must not hold up the answers to what came before it.
    if (weight >= ENOUGH && !this.#isFlushing && this.#waiting.at(-1)?.op.verb !== "declare") this.#flush();
    return new Promise((resolve, reject) => {
      this.#waiting.push({ op: op, resolve: resolve, reject });
      this.#weight += weight;
      if (ALONE.has(op.verb)) this.#alone++;
      // What follows a declaration has to go with it: see #takeBatch.
      if (this.#isFlushing) return;
      if (this.#weight >= ENOUGH && op.verb !== "declare") this.#flush();
      else this.#askFlush();
    });
  }

  /** Refuses what comes from now on, and resolves when what came before is answered. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#waiting.length === 0 && this.#underWay === 0) return;
    await new Promise<void>((resolve) => (this.#idle = resolve));
  }

  #askFlush(): void {
    if (this.#flushAsked || this.#underWay >= this.#engine.depth) return;
    this.#flushAsked = true;
    // After the promise callbacks of this turn: whoever was just answered may call again before it.
    setImmediate(() => {
      this.#flushAsked = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (this.#waiting.length === 0 || this.#underWay >= this.#engine.depth) return;
    this.#isFlushing = true;
    this.#listener.onSend(this.#waiting);
    this.#isFlushing = false;
    const batch = this.#takeBatch();
    const ops = batch.map((waiting) => waiting.op);
    this.#underWay++;
    const began = performance.now();
    this.#engine
      .execute(ops)
      .then(
        (outcomes) => {
          this.#note(ops, began);
          return answer(batch, outcomes);
        },
        (error: unknown) => {
          markStoreFault(error, this.#engine.address);
          for (const waiting of batch) waiting.reject(error);
        },
      )
      .finally(() => {
        this.#underWay--;
        this.#listener.onCommit(ops);
        if (this.#waiting.length > 0) this.#askFlush();
        else if (this.#underWay === 0) this.#idle?.();
      });
    if (this.#waiting.length > 0) this.#askFlush();
  }

  #note(ops: readonly Op[], began: number): void {
    const { measure } = this.#listener;
    if (measure && ops.some(({ verb }) => !READING_VERBS.has(verb)))
      measure({ operations: ops.length, ms: performance.now() - began });
  }

  /** A declaration commits with the operation that follows it, so no batch ends on one. */
  #takeBatch(): Waiting[] {
    let size = Math.min(this.#waiting.length, BOUNDS.commit, this.#untilAlone());
    while (size > 1 && size < this.#waiting.length && this.#waiting[size - 1]!.op.verb === "declare") size--;
    const batch = this.#waiting.splice(0, size);
    for (const { op } of batch) this.#weight -= weightOf(op);
    if (batch.length === 1 && ALONE.has(batch[0]!.op.verb)) this.#alone--;
    return settlementsFirst(batch);
  }

  /** How many come before the first that goes alone, or that one by itself. */
  #untilAlone(): number {
    if (this.#alone === 0) return Number.POSITIVE_INFINITY;
    return Math.max(
      1,
      this.#waiting.findIndex(({ op }) => ALONE.has(op.verb)),
    );
  }
}

/**
 * Each of many workers settles its task and claims the next one: settled together, and then claimed, that is two things to
 * do and not two for each. What a worker settled in the same moment may be claimed again by another one then; that is no news,
 * since these have no order among themselves.
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
