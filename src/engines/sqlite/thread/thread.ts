// First: see the comment there.
import "../../../core/process/supported-node.ts";
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { type Reading, startTimer } from "../../../core/time/clock.ts";
import { isDibsError } from "../../../core/errors/errors.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import type { Hint } from "../../../engine/hint.ts";
import type { Op, Outcome } from "../../../engine/engine.ts";
import { systemClock } from "../../../engine/system-clock.ts";
import { HeartbeatTimer } from "../../../engine/heartbeat-timer.ts";
import {
  type Answer,
  END,
  failureOf,
  type OpenStore,
  type Report,
  type Request,
  STORE_THREAD,
  type ThreadData,
} from "./messages.ts";
import { type PackedOps, packOutcomes, sizeOf, unpackOps } from "./pack.ts";
import { SqliteStore, CommittedNotSynced } from "../batch/store.ts";
import { Watch } from "../connection/watch.ts";

/**
 * A store on the thread that runs SQLite, which blocks its thread. While a commit is flushed to disk, the next requests collect in
 * the port; all of them go into one transaction. The writer also sends the heartbeats of the sessions that joined
 * through it, so that a handler which blocks the event loop does not lose its claims. And it watches for commits of
 * other processes.
 */
class ServedStore {
  readonly #port: MessagePort;
  readonly #data: ThreadData;
  readonly #store: SqliteStore;
  readonly #sessions = new Set<number>();
  /** Waiting claims by session, the longest-waiting first. */
  readonly #waiting = new Map<number, Op<"claim">>();
  readonly #heart: HeartbeatTimer;
  readonly #watch: Watch | undefined;
  /** Requests that were not executed yet. */
  readonly #arrived: Request[] = [];

  constructor(port: MessagePort, data: ThreadData) {
    this.#port = port;
    this.#data = data;
    const { path, durability, create = true, role } = data;
    const reading = data.reading ?? systemClock.read();
    this.#store = new SqliteStore({ path, durability, create, readonly: role === "reader" }, reading);
    this.#heart = new HeartbeatTimer(startTimer, (sessions) => this.#beat(sessions, systemClock.read()));
    if (role === "writer" && path !== ":memory:") {
      this.#watch = new Watch(
        path,
        () => this.#store.dataVersion(),
        () => this.#foreign(),
      );
    }
    port.on("message", (request: Request) => this.#arrive(request));
  }

  #post(report: Report): void {
    this.#port.postMessage(report);
  }

  /**
   * In a task of its own. Otherwise the port would deliver up to a thousand messages in a row, and the timers of
   * heartbeats and of the watch would wait for all of them.
   */
  #arrive(request: Request): void {
    if (this.#arrived.push(request) === 1) this.#serveSoon();
  }

  #serveSoon(): void {
    setImmediate(() => this.#serve());
  }

  /**
   * All requests that have arrived, as many as one commit takes. Requests with a clock reading are executed one by one.
   */
  #serve(): void {
    const batch: Batch[] = [];
    let size = 0;
    for (let request = this.#next(); request; request = size < BOUNDS.commit ? this.#next() : undefined) {
      if ("ops" in request && request.reading === null) {
        batch.push(request);
        size += sizeOf(request.ops);
        continue;
      }
      this.#runAll(batch.splice(0), null);
      size = 0;
      if ("close" in request) return this.#close();
      if ("ops" in request) this.#runAll([request], request.reading);
      else this.#answer(request);
    }
    this.#runAll(batch, null);
    this.#store.limitJournal();
    if (this.#arrived.length > 0) this.#serveSoon();
  }

  #next(): Request | undefined {
    return this.#arrived.shift() ?? (receiveMessageOnPort(this.#port)?.message as Request | undefined);
  }

  #runAll(batch: Batch[], given: Reading | null): void {
    if (batch.length === 0) return;
    const reading = given ?? systemClock.read();
    let done: { parts: Op[][]; ops: Op[]; outcomes: Outcome[]; hint: Hint };
    try {
      const parts = batch.map(({ ops, sentAt }) =>
        sentAt === null ? unpackOps(ops) : catchUp(unpackOps(ops), reading.awake - sentAt),
      );
      const ops = parts.length === 1 ? parts[0]! : parts.flat();
      // Whatever the outcome: a session that asked to leave sends no more heartbeats.
      for (const op of ops) if (op.verb === "leave") this.#forget(op.session);
      done = { parts, ops, ...this.#store.execute(ops, reading) };
    } catch (error) {
      // An exception that is not an answer of the store is a bug in one of the batches. The others must not
      // fail with it.
      if (batch.length > 1 && !isDibsError(error)) {
        for (const request of batch) this.#runAll([request], given);
        return;
      }
      return this.#fail(batch, error);
    }
    // It is committed: whatever fails from here on, it must not be executed again.
    if (this.#store.committed) this.#watch?.committed();
    try {
      this.#follow(done.ops, done.outcomes);
      this.#post({ answers: pack(batch, done), hint: isEmpty(done.hint) ? null : done.hint });
    } catch (error) {
      this.#fail(batch, error);
    }
    if (this.#store.hasNotices) this.#fetchNotices(reading);
  }

  #fail(batch: Batch[], error: unknown): void {
    const failure = failureOf(error);
    // It may have been executed, and concerns other processes and claims: they have to look for themselves.
    const isUnknown = failure.code === "OUTCOME_UNKNOWN";
    if (isUnknown) this.#watch?.committed();
    this.#post({
      answers: batch.map(({ id }): Answer => ({ id, failure })),
      hint: isUnknown ? { foreign: true } : null,
    });
  }

  #follow(ops: readonly Op[], outcomes: readonly Outcome[]): void {
    for (const [index, op] of ops.entries()) {
      const outcome = outcomes[index]!;
      if (op.verb === "join" && "ok" in outcome) {
        const { session } = outcome.ok as { session: number };
        this.#sessions.add(session);
        if (this.#data.reading === null) this.#heart.join(session, op.lease);
      } else if (op.verb === "rejoin" && "ok" in outcome) {
        const { session, lease } = outcome.ok as { session: number; lease: number };
        this.#forget(op.session);
        this.#sessions.add(session);
        if (this.#data.reading === null) this.#heart.join(session, lease);
      } else if (op.verb === "claim") {
        this.#followClaim(op, outcome as Outcome<"claim">);
      } else if (op.verb === "retire") {
        this.#waiting.delete(op.session);
      }
    }
  }

  #followClaim(op: Op<"claim">, outcome: Outcome<"claim">): void {
    const { session, waitingId } = op;
    const found = "ok" in outcome && outcome.ok.tasks.length > 0;
    if (found) this.#watch?.useful();
    if (session === undefined) return;
    if ("ok" in outcome && !found && waitingId !== undefined) this.#waiting.set(session, op);
    else this.#waiting.delete(session);
  }

  #forget(session: number): void {
    this.#sessions.delete(session);
    this.#waiting.delete(session);
    this.#heart.leave(session);
  }

  /** Returns whether it was committed. */
  #beat(sessions: number[], reading: Reading): boolean {
    try {
      this.#tell(this.#runBeat(sessions, reading));
      return true;
    } catch (error) {
      if (!isDibsError(error)) throw error;
      return false;
    }
  }

  /** A heartbeat ends overdue claims, so it reports more than notices. */
  #runBeat(sessions: number[], reading: Reading): Hint {
    try {
      const ran = this.#store.execute([{ verb: "heartbeat", sessions }], reading);
      if (this.#store.committed) this.#watch?.committed();
      return this.#heard(ran);
    } catch (error) {
      // Its results are stored nowhere else.
      if (error instanceof CommittedNotSynced) this.#tell(this.#heard(error.ran));
      throw error;
    }
  }

  #heard({ outcomes, hint }: { outcomes: readonly Outcome[]; hint: Hint }): Hint {
    const { notices } = (outcomes[0] as Extract<Outcome<"heartbeat">, { ok: unknown }>).ok;
    for (const notice of notices) if (notice.kind === "gone") this.#forget(notice.session);
    return notices.length > 0 ? { ...hint, notices } : hint;
  }

  /** Requests of a caller with an injected clock. */
  #answer(request: Exclude<Request, Batch | { close: true }>): void {
    const { id, reading } = request;
    try {
      const sessions = "beat" in request ? request.beat : this.#noticed(reading);
      const hint = sessions.length > 0 ? this.#runBeat(sessions, reading) : {};
      this.#post({ answers: [{ id, outcomes: [] }], hint });
    } catch (error) {
      this.#post({ answers: [{ id, failure: failureOf(error) }], hint: null });
    }
  }

  #tell(hint: Hint): void {
    if (!isEmpty(hint)) this.#post({ answers: [], hint });
  }

  #fetchNotices(reading: Reading): void {
    const sessions = this.#noticed(reading);
    if (sessions.length > 0) this.#beat(sessions, reading);
  }

  /** Sessions whose heartbeats this thread sends. Other processes handle their own. */
  #noticed(reading: Reading): number[] {
    return this.#store.noticedSessions(reading).filter((session) => this.#sessions.has(session));
  }

  /** Another process has committed. A store that cannot be read now is read again at the next commit or heartbeat. */
  #foreign(): void {
    // With an injected clock, the caller requests what follows.
    if (this.#data.reading !== null) return this.#tell({ foreign: true });
    const [waiting] = this.#waiting.values();
    if (waiting) this.#claimFor(waiting);
    else this.#tell({ foreign: true });
    if (this.#sessions.size === 0) return;
    try {
      this.#fetchNotices(systemClock.read());
    } catch (error) {
      if (!isDibsError(error)) throw error;
    }
  }

  /**
   * The commit most often added a task, and a claim waits here for one: to report it, and to get the claim again, would
   * take two more thread switches.
   */
  #claimFor(op: Op<"claim">): void {
    try {
      const { outcomes, hint } = this.#store.execute([op], systemClock.read());
      if (this.#store.committed) this.#watch?.committed();
      this.#follow([op], outcomes);
      const retried = { op, outcomes: packOutcomes(outcomes, [op]) };
      this.#post({ answers: [], hint: { ...hint, foreign: true }, retried });
    } catch (error) {
      this.#waiting.delete(op.session!);
      this.#post({ answers: [], hint: { foreign: true }, retried: { op, failure: failureOf(error) } });
    }
  }

  #close(): void {
    this.#heart.stop();
    this.#watch?.close();
    this.#store.close();
    this.#port.close();
  }
}

type Batch = Extract<Request, { ops: PackedOps }>;

function pack(batch: Batch[], { parts, outcomes }: { parts: Op[][]; outcomes: Outcome[] }): Answer[] {
  let from = 0;
  return batch.map(({ id }, index) => {
    const part = parts[index]!;
    return { id, outcomes: packOutcomes(outcomes.slice(from, (from += part.length)), part) };
  });
}

/**
 * A delay counts from the call, not from its execution: `ms` of it have passed already. The request itself is not
 * changed, because it may be executed again on its own.
 */
function catchUp(ops: Op[], ms: number): Op[] {
  return ops.map((op) => {
    if (op.verb !== "add" || !op.tasks.some(({ delay }) => delay !== undefined)) return op;
    const tasks = op.tasks.map((task) =>
      task.delay === undefined ? task : { ...task, delay: Math.max(0, Math.ceil(task.delay - ms)) },
    );
    return { ...op, tasks };
  });
}

function isEmpty(hint: Hint): boolean {
  for (const _ in hint) return false;
  return true;
}

/** Opens a store and executes requests as long as the port is open. */
export function serve(port: MessagePort, data: ThreadData): void {
  try {
    void new ServedStore(port, data);
    port.postMessage({ opened: true } satisfies Report);
  } catch (error) {
    port.postMessage({ failure: failureOf(error) } satisfies Report);
    port.close();
  }
}

// This file is also loaded by in-process.ts, perhaps in a thread of the user.
if (parentPort && workerData === STORE_THREAD) {
  const requests = parentPort;
  requests.on("message", (request: OpenStore | typeof END) => {
    if (request === END) requests.close();
    else serve(request.port, request.data);
  });
}
