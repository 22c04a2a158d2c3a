import { isDibsError } from "../../core/errors/errors.ts";
import type { Reading } from "../../core/time/clock.ts";
import type { Hint } from "../../engine/hint.ts";
import type { Op, Outcomes, Store, VerbName, Verbs } from "../../engine/engine.ts";
import { closedError, isClosed, type TransferStore } from "../../engine/transfer.ts";
import { add } from "./add.ts";
import { cancel, cancelRun } from "./cancel.ts";
import { change } from "./change.ts";
import { listen, prune, housekeep, unlisten } from "./housekeeping.ts";
import { children } from "./children.ts";
import { claim } from "./claim.ts";
import { discard, patterns, redrive } from "./dead.ts";
import { ends, get, history, list, stats, steps, verifying } from "./inspect.ts";
import { followEnds } from "./line.ts";
import { Model } from "./model.ts";
import { spawn } from "./spawn.ts";
import { signal, step } from "./park.ts";
import { documents, put } from "./documents.ts";
import { declare, drop, pause, purge, queues } from "./queues.ts";
import { inspectRun, listRuns } from "./runs.ts";
import { heartbeat, join, leave, reconcile, rejoin, retire, workers } from "./sessions.ts";
import { extend, progress, settle } from "./settle.ts";
import { continueExpired } from "./continue-expired.ts";
import { publish, subscribe, subscriptions, unsubscribe } from "./topics.ts";
import { MemoryTransfer } from "./transfer/transfer.ts";
import { unhold } from "./unhold.ts";

/**
 * The table of verbs of the reference model, and the store that executes them. The engine and the simulation call it.
 */

type Handlers = { [V in VerbName]: (model: Model, op: Verbs[V]["in"]) => Verbs[V]["out"] };

const HANDLERS: Handlers = {
  declare,
  pause,
  unhold,
  queues,
  purge,
  drop,
  subscribe,
  unsubscribe,
  subscriptions,
  publish,
  add,
  claim,
  settle,
  extend,
  progress,
  step,
  spawn,
  children,
  steps,
  signal,
  verifying,
  cancel,
  change,
  get,
  ends,
  history,
  list,
  run: inspectRun,
  runs: listRuns,
  cancelRun,
  patterns,
  redrive,
  discard,
  join,
  heartbeat,
  reconcile,
  rejoin,
  retire,
  leave,
  workers,
  put,
  documents,
  housekeep,
  prune,
  stats,
  listen,
  unlisten,
};

export class MemoryStore implements Store {
  readonly #model: Model;

  /** `store` becomes part of every task's id. */
  constructor(store: number, reading: Reading) {
    this.#model = new Model(store, reading);
  }

  /** The time of the last batch. */
  get now(): number {
    return this.#model.now;
  }

  get hasNotices(): boolean {
    return this.#model.notices.length > 0;
  }

  /** For exports and imports. */
  get transfer(): TransferStore {
    return new MemoryTransfer(this.#model);
  }

  execute<const Ops extends readonly Op[]>(
    ops: Ops,
    reading: Reading,
  ): { outcomes: Outcomes<Ops>; hint: Hint } {
    const { transfer, label } = this.#model;
    if (isClosed(transfer)) throw closedError(JSON.stringify(transfer), label);
    this.#model.begin(reading);
    const outcomes = ops.map((op) => this.#runOne(op));
    return { outcomes: outcomes as unknown as Outcomes<Ops>, hint: this.#model.hint };
  }

  /** Verbs check before they write, so a refusal leaves nothing half done. */
  #runOne<V extends VerbName>(op: Op<V>) {
    try {
      const handler = HANDLERS[op.verb as V] as (model: Model, op: unknown) => Verbs[V]["out"];
      // A copy: later operations of the batch must not change this answer.
      return { ok: copy(handler(this.#model, op)) };
    } catch (error) {
      if (!isDibsError(error)) throw error;
      return { refused: { code: error.code, message: error.message, retryable: error.retryable } };
    } finally {
      followEnds(this.#model);
      continueExpired(this.#model);
      // The queue in which they continue may be full, and then drops tasks.
      followEnds(this.#model);
    }
  }
}

/** structuredClone for plain data, at a fraction of its cost: the simulation looks at the model after every step. */
function copy<T>(value: T): T {
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Uint8Array) return new Uint8Array(value) as T;
  if (Array.isArray(value)) return value.map(copy) as T;
  const result = { ...value } as Record<string, unknown>;
  for (const name of Object.keys(result)) {
    if (typeof result[name] === "object") result[name] = copy(result[name]);
  }
  return result as T;
}
