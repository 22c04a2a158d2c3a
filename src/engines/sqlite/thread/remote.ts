import type { Worker } from "node:worker_threads";
import type { Reading } from "../../../core/time/clock.ts";
import { DibsError, errorFrom } from "../../../core/errors/errors.ts";
import type { ClaimOutcome } from "../../../engine/claim-request.ts";
import type { Hint, RetriedClaim } from "../../../engine/hint.ts";
import type { Op, Outcome } from "../../../engine/engine.ts";
import { systemClock } from "../../../engine/system-clock.ts";
import { errorOf, type ThreadReport, type Report, type Request, type ThreadData } from "./messages.ts";
import { packOps, unpackOutcomes } from "./pack.ts";

/** Starts the thread of a store and talks to it. engine.ts has one for writing and one for reading. */

interface Call {
  ops: readonly Op[];
  resolve: (outcomes: Outcome[]) => void;
  reject: (error: Error) => void;
}

/** What runs the store: a thread (store-threads.ts), or InProcess. */
export interface StoreWorker extends Pick<Worker, "postMessage" | "ref" | "unref"> {
  on(event: "message", listener: (report: ThreadReport) => void): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
  once(event: "message", listener: (report: Report) => void): unknown;
  once(event: "exit", listener: () => void): unknown;
}
export type StartStore = (data: ThreadData) => StoreWorker;

/**
 * The caller's end of a store's thread.
 *
 *   opening ──▶ open ──▶ closing ──▶ ended
 *      └──────────┴─────────┴──▶ ended, when the thread dies: then every call is told so, and none hangs
 *
 * The thread keeps the process alive only while a call is under way.
 */
export class Remote {
  readonly #worker: StoreWorker;
  readonly #path: string;
  readonly #onHint: (hint: Hint) => void;
  readonly #calls = new Map<number, Call>();
  readonly #ended: Promise<void>;
  #lastId = 0;
  #closing = false;
  #death: DibsError | undefined;

  private constructor(data: ThreadData, onHint: (hint: Hint) => void, start: StartStore) {
    this.#path = data.path;
    this.#onHint = onHint;
    this.#worker = start(data);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#ended = promise;
    this.#worker.once("exit", () => {
      this.#die();
      resolve();
    });
  }

  /** Resolves when the store is open; rejects with the reason if it cannot be opened. */
  static async open(data: ThreadData, onHint: (hint: Hint) => void, start: StartStore): Promise<Remote> {
    const remote = new Remote(data, onHint, start);
    await remote.#opened();
    return remote;
  }

  #opened(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const worker = this.#worker;
    worker.once("message", (report: Report) => {
      if ("failure" in report) {
        this.#closing = true;
        reject(errorOf(report.failure));
        return;
      }
      worker.on("message", (news: ThreadReport) => this.#receive(news));
      worker.unref();
      resolve();
    });
    worker.on("error", (error: Error) => {
      this.#die(error);
      reject(this.#death!);
    });
    void this.#ended.then(() => reject(this.#death ?? closed()));
    return promise;
  }

  /** Why no call is possible any more. */
  get ended(): DibsError | undefined {
    return this.#closing ? closed() : this.#death;
  }

  run(ops: readonly Op[], reading: Reading | null): Promise<Outcome[]> {
    const sentAt = reading === null ? systemClock.read().awake : null;
    return this.#call({ ops: packOps(ops), sentAt }, reading, ops);
  }

  /** What a caller with an injected clock requests besides its batches. */
  async care(request: { beat: number[] } | { notices: true }, reading: Reading): Promise<void> {
    await this.#call(request, reading, []);
  }

  #call(request: object, reading: Reading | null, ops: readonly Op[]): Promise<Outcome[]> {
    if (this.ended) return Promise.reject(this.ended);
    const id = ++this.#lastId;
    const { promise, resolve, reject } = Promise.withResolvers<Outcome[]>();
    // Cloned first: a batch that cannot be cloned was never in progress.
    this.#worker.postMessage({ id, ...request, reading });
    if (this.#calls.size === 0) this.#worker.ref();
    this.#calls.set(id, { ops, resolve, reject });
    return promise;
  }

  #receive({ answers, hint, retried }: ThreadReport): void {
    if (hint && !this.#closing)
      this.#onHint(retried ? { ...hint, retriedClaim: retriedFrom(retried) } : hint);
    for (const { id, outcomes, failure } of answers) {
      const call = this.#calls.get(id)!;
      this.#calls.delete(id);
      if (failure) call.reject(errorOf(failure));
      else call.resolve(unpackOutcomes(outcomes!, call.ops));
    }
    if (this.#calls.size === 0 && !this.#closing) this.#worker.unref();
  }

  /** Executes what was sent before. */
  async close(): Promise<void> {
    if (!this.#closing && !this.#death) {
      this.#closing = true;
      this.#worker.ref();
      this.#worker.postMessage({ close: true } satisfies Request);
    }
    await this.#ended;
  }

  #die(cause?: Error): void {
    if (!this.#closing) {
      this.#death ??= new DibsError(
        "UNAVAILABLE",
        `The thread of the store ${this.#path} ended unexpectedly${cause ? ` (${cause.message})` : ""}. Open the store again.`,
        { retryable: false, ...(cause && { cause }) },
      );
    }
    const unknown = new DibsError(
      "OUTCOME_UNKNOWN",
      `The thread of the store ${this.#path} ended before it answered: what was asked may or may not have happened. ` +
        `Open the store again, and look before repeating it, or repeat it with an idempotencyKey.`,
    );
    for (const call of this.#calls.values()) call.reject(unknown);
    this.#calls.clear();
  }
}

function retriedFrom({ op, outcomes, failure }: NonNullable<ThreadReport["retried"]>): RetriedClaim {
  if (failure) return { request: op, error: errorOf(failure) };
  const [outcome] = unpackOutcomes(outcomes!, [op]);
  if ("refused" in outcome!) return { request: op, error: errorFrom(outcome.refused) };
  return { request: op, outcome: outcome!.ok as ClaimOutcome };
}

export function closed(): DibsError {
  return new DibsError("CLOSED", "The store was closed.");
}
