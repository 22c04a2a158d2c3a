import Database from "better-sqlite3";
import type { Reading } from "../../../core/time/clock.ts";
import { DibsError, isDibsError } from "../../../core/errors/errors.ts";
import type { Hint } from "../../../engine/hint.ts";
import {
  type Op,
  type Outcome,
  type Outcomes,
  READING_VERBS,
  type Store,
  type VerbName,
  type Verbs,
} from "../../../engine/engine.ts";
import { closedError } from "../../../engine/transfer.ts";
import { add } from "../verbs/add.ts";
import { followEnds } from "../line/follow-ends.ts";
import { continueExpired } from "../verbs/continue-expired.ts";
import { cancel } from "../verbs/cancel.ts";
import { change } from "../verbs/change.ts";
import { children } from "../verbs/children.ts";
import { listen, listenOnly, prune, housekeep, nothingToHousekeep, unlisten } from "../verbs/housekeeping.ts";
import { claim, claimNothing } from "../verbs/claim.ts";
import { discard, patterns, redrive } from "../verbs/dead.ts";
import { documents, put } from "../verbs/documents.ts";
import { failureFrom } from "../connection/failure.ts";
import { type Durability, Journal } from "../connection/journal.ts";
import { isBusy, whenFree } from "../connection/lock.ts";
import { ends } from "../verbs/ends.ts";
import { get, history, verifying } from "../verbs/inspect.ts";
import { spawn } from "../verbs/spawn.ts";
import { stats } from "../verbs/stats.ts";
import { list } from "../verbs/list.ts";
import { inspectRun, listRuns } from "../verbs/inspect-runs.ts";
import { openDatabase } from "../connection/open.ts";
import { OpenFiles } from "../connection/open-files.ts";
import { signal, step, steps } from "../verbs/park.ts";
import { declare, drop, pause, purge, queues } from "../verbs/queues.ts";
import { publish } from "../verbs/publish.ts";
import { cancelRun } from "../flows/runs.ts";
import { heartbeat, join, leave, reconcile, rejoin, retire, workers } from "../verbs/sessions.ts";
import { settleTogether } from "../verbs/settle-together.ts";
import { extend, progress, settle } from "../verbs/settle.ts";
import { subscribe, subscriptions, unsubscribe } from "../transaction/topics.ts";
import { Tx } from "../transaction/tx.ts";
import { unhold } from "../verbs/unhold.ts";

/** Executes the verbs of a batch in one transaction, on the thread of the store (thread/thread.ts calls it). */

type Handlers = { [V in VerbName]: (tx: Tx, op: Verbs[V]["in"]) => Verbs[V]["out"] };

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

/**
 * Verbs that often find nothing to do. These functions find that out by reading; undefined: there is something to do.
 */
const IDLE: { [V in VerbName]?: (tx: Tx, op: Verbs[V]["in"]) => Verbs[V]["out"] | undefined } = {
  claim: claimNothing,
  housekeep: nothingToHousekeep,
  listen: listenOnly,
};

const READING = "BEGIN";
const WRITING = "BEGIN IMMEDIATE";

const CLOSED = `SELECT transfer FROM store WHERE closed = 1`;
const DATA_VERSION = `PRAGMA data_version`;
const NOTICED = `SELECT DISTINCT session FROM notice`;

export interface SqliteStoreOptions {
  path: string;
  durability?: Durability;
  /** Part of every task's id; random for a new store, unless a test names it. */
  store?: number;
  /** False: a file that does not exist is not created. */
  create?: boolean;
  /** For reading verbs only. */
  readonly?: boolean;
}

interface BatchResult {
  outcomes: Outcome[];
  hint: Hint;
}

/** A batch that was executed, and may not survive a power cut. */
export class CommittedNotSynced extends DibsError {
  readonly ran: BatchResult;

  constructor({ code, message, cause }: DibsError, ran: BatchResult) {
    super(code, message, { cause });
    this.ran = ran;
  }
}

/** One connection to a store file. It is synchronous, so it runs in a thread of its own (thread.ts). */
export class SqliteStore implements Store {
  readonly #db: Database.Database;
  readonly #path: string;
  readonly #readonly: boolean;
  readonly #tx: Tx;
  readonly #journal: Journal | undefined;
  readonly #files: OpenFiles | undefined;
  /** Prepared once, because the watch reads it several times for each commit: 3 µs instead of 12. */
  readonly #readVersion: Database.Statement;
  #dataVersion = 0;

  constructor(options: SqliteStoreOptions, reading: Reading) {
    this.#path = options.path;
    this.#readonly = options.readonly ?? false;
    this.#db = openDatabase(options, reading);
    this.#checkOpen();
    // From here on, lock.ts waits if the store is locked.
    this.#db.pragma("busy_timeout = 0");
    this.#tx = new Tx(this.#db);
    this.#readVersion = this.#db.prepare(DATA_VERSION).pluck();
    if (this.#db.memory) return;
    this.#journal = new Journal(this.#db, options.path, options.durability ?? "full");
    this.#files = new OpenFiles(options.path);
  }

  /** A store that was moved, or is being moved or filled, is refused at once. */
  #checkOpen(): void {
    const closed = this.#db.prepare(CLOSED).pluck().get() as string | undefined;
    if (closed === undefined) return;
    this.#db.close();
    throw closedError(closed, this.#path);
  }

  execute<const Ops extends readonly Op[]>(
    ops: Ops,
    reading: Reading,
  ): { outcomes: Outcomes<Ops>; hint: Hint } {
    if (this.#files?.loss) throw this.#files.loss;
    this.#journal?.settleDoubt();
    const done = this.#answer(ops, reading);
    // After the commit and before its answer: once the check has noticed a loss, nothing is acknowledged.
    this.#files?.check();
    return done as { outcomes: Outcomes<Ops>; hint: Hint };
  }

  #answer(ops: readonly Op[], reading: Reading): BatchResult {
    if (ops.every((op) => READING_VERBS.has(op.verb))) return this.#within(READING, ops, reading);
    if (!ops.every((op) => op.verb in IDLE)) return this.#within(WRITING, ops, reading);
    const idle = this.#idle(ops, reading);
    if (idle) return idle;
    this.#tx.changed ||= this.#tx.rebooted;
    const ran = this.#execute(ops, { canRetry: true });
    return ran ? this.#onDisk(ran) : this.#within(WRITING, ops, reading);
  }

  #within(begin: string, ops: readonly Op[], reading: Reading): BatchResult {
    this.#tryBegin(begin, reading);
    if (begin === WRITING) this.#tx.changed ||= this.#tx.rebooted;
    return this.#onDisk(this.#execute(ops)!);
  }

  #onDisk(ran: BatchResult): BatchResult {
    if (!this.#tx.changed) {
      this.#journal?.syncSeen();
      return ran;
    }
    const failure = this.#journal?.sync();
    if (failure) throw new CommittedNotSynced(failure, ran);
    return ran;
  }

  /**
   * Executes all operations in the transaction that has begun, in order, and commits. After an error of SQLite nothing
   * has happened. `canRetry`: undefined if the transaction began as a reading one, and SQLite refuses its first write,
   * because another process is writing or has committed since.
   */
  #execute(ops: readonly Op[], { canRetry = false } = {}): BatchResult | undefined {
    const tx = this.#tx;
    let committing = false;
    try {
      const outcomes = runAll(tx, ops);
      tx.finish();
      committing = tx.changed;
      tx.exec("COMMIT");
      return { outcomes, hint: tx.batch.hint };
    } catch (error) {
      this.#undo();
      if (canRetry && isBusy(error)) return undefined;
      throw failureFrom(error, this.#path, committing);
    }
  }

  /**
   * Answers a batch that has nothing to do, without the write lock. Undefined if there is something to do: then the
   * transaction has begun, and goes on: a claim of one task took 145 µs of CPU with two transactions, and 106 with one.
   */
  #idle(ops: readonly Op[], reading: Reading): BatchResult | undefined {
    const tx = this.#tx;
    this.#tryBegin(READING, reading);
    let outcomes: Outcome[];
    try {
      outcomes = ops.map((op) => runOne(IDLE as Handlers, tx, op));
      const isIdle =
        !tx.rebooted && outcomes.every((outcome) => !("ok" in outcome) || outcome.ok !== undefined);
      if (!isIdle) return undefined;
      tx.exec("COMMIT");
    } catch (error) {
      this.#undo();
      throw failureFrom(error, this.#path);
    }
    // That there is nothing to do need not be on disk. Events and refusals must be: a caller sees them.
    if (outcomes.some((outcome, index) => ops[index]!.verb === "listen" || "refused" in outcome))
      this.#journal?.syncSeen();
    return { outcomes, hint: {} };
  }

  #reading<T>(reading: Reading, look: () => T): T {
    this.#tryBegin(READING, reading);
    try {
      const seen = look();
      this.#tx.exec("COMMIT");
      return seen;
    } catch (error) {
      this.#undo();
      throw failureFrom(error, this.#path);
    }
  }

  #tryBegin(begin: string, reading: Reading): void {
    try {
      this.#begin(begin, reading);
    } catch (error) {
      this.#undo();
      throw failureFrom(error, this.#path);
    }
  }

  #begin(begin: string, reading: Reading): void {
    whenFree(() => {
      this.#tx.exec(begin);
      try {
        this.#tx.begin(reading);
        if (this.#tx.closed !== null) throw closedError(this.#tx.closed, this.#path);
      } catch (error) {
        this.#undo();
        throw error;
      }
    });
  }

  /** A failed commit may have rolled back already. The copies of the transaction are forgotten. */
  #undo(): void {
    if (this.#db.inTransaction) this.#tx.exec("ROLLBACK");
    this.#tx.forget();
  }

  /** Every statement used so far, for the tests of query plans. */
  get statements(): Iterable<string> {
    return this.#tx.statements;
  }

  /** The last batch changed something. */
  get committed(): boolean {
    return this.#tx.changed;
  }

  /** The last batch left notices for sessions. */
  get hasNotices(): boolean {
    return this.#tx.hasNotices;
  }

  /** The sessions that have notices. */
  noticedSessions(reading: Reading): number[] {
    this.#tx.noteNoticesRead();
    return this.#reading(reading, () => this.#tx.all<{ session: number }>(NOTICED).map((row) => row.session));
  }

  limitJournal(): void {
    if (!this.#readonly) this.#journal?.limit();
  }

  /** Changes when another connection has committed. */
  dataVersion(): number {
    try {
      this.#dataVersion = this.#readVersion.get() as number;
    } catch (error) {
      // A store in trouble reports it to its callers. The watch checks again later.
      if (!(error instanceof Database.SqliteError)) throw error;
    }
    return this.#dataVersion;
  }

  close(): void {
    this.#journal?.close();
    this.#db.close();
  }
}

/** In order. Settlements that follow each other are combined if that has the same effect. */
function runAll(tx: Tx, ops: readonly Op[]): Outcome[] {
  const outcomes: Outcome[] = [];
  const single = (op: Op): Outcome => {
    const outcome = runOne(HANDLERS, tx, op);
    followEnds(tx);
    return outcome;
  };
  while (outcomes.length < ops.length) {
    const op = ops[outcomes.length]!;
    if (op.verb !== "add" && op.verb !== "publish") tx.addBuffer.write();
    const settled = op.verb === "settle" ? settleTogether(tx, ops, outcomes.length, single) : [];
    outcomes.push(...(settled.length > 0 ? settled : [single(op)]));
    if (tx.batch.expired.length === 0) continue;
    continueExpired(tx);
    // The queue in which they continue may be full, and then drops tasks.
    followEnds(tx);
  }
  return outcomes;
}

/** Verbs check before they write, so a refusal leaves nothing half done. */
function runOne<V extends VerbName>(handlers: Handlers, tx: Tx, op: Op<V>): Outcome {
  try {
    const handler = handlers[op.verb as V] as (tx: Tx, op: unknown) => Verbs[V]["out"];
    return { ok: handler(tx, op) } as Outcome;
  } catch (error) {
    if (!isDibsError(error)) throw error;
    return { refused: { code: error.code, message: error.message, retryable: error.retryable } };
  }
}
