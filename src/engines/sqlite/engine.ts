import type { Clock } from "../../core/time/clock.ts";
import { type Logger, SILENT } from "../../core/process/logger.ts";
import { type Engine, type Op, type Outcome, type Outcomes, READING_VERBS } from "../../engine/engine.ts";
import type { Hint } from "../../engine/hint.ts";
import { realPathOf } from "../../engine/real-file.ts";
import { HeartbeatTimer } from "../../engine/heartbeat-timer.ts";
import type { ThreadData } from "./thread/messages.ts";
import type { Durability } from "./connection/journal.ts";
import { Reader } from "./thread/reader.ts";
import { closed, Remote, type StartStore } from "./thread/remote.ts";
import { StoreThreads } from "./thread/store-threads.ts";

/**
 * The engine on SQLite, for api/open.ts. It sends batches and fast reads to the writing thread, and slow
 * reads to a reading thread.
 */

export interface SqliteOptions {
  path: string;
  durability?: Durability;
  /** False: a file that does not exist is not created. */
  create?: boolean;
  /** For tests. The store's thread reads the machine's clock, and sends heartbeats by it. */
  clock?: Clock;
  /** For a process that makes a few calls, one after the other: no thread is started, and calls block the caller. */
  isBrief?: boolean;
  /** open() passes those of the process, so that two handles on one file share a thread. Default: threads of its own. */
  threads?: StoreThreads;
  logger?: Logger;
}

/** Opens the file of a store, or creates it unless `create` is false. Any number of processes may have it open. */
export async function openSqlite(options: SqliteOptions): Promise<Engine> {
  const { clock, durability = "full", create = true } = options;
  const path = options.path === ":memory:" ? options.path : realPathOf(options.path);
  const data: ThreadData = { path, durability, create, role: "writer", reading: clock?.read() ?? null };
  const hints = new Hints();
  const { isBrief = false, threads = new StoreThreads(), logger = SILENT } = options;
  const onShared = (): void => logger.warn(openAlready(path));
  const startThread: StartStore = (given) =>
    threads.open(given, given.role === "writer" ? onShared : undefined);
  const start = isBrief ? await startInProcess() : startThread;
  const writer = await Remote.open(data, hints.deliver, start);
  const reader = isBrief || path === ":memory:" ? undefined : new Reader(data, startThread);
  return new SqliteEngine(writer, hints, { path, clock, reader });
}

function openAlready(path: string): string {
  return (
    `${path} is open in this process already. This store shares its thread, and is otherwise a store of its own, with ` +
    `workers that continue until it is closed. Open a store once in a process; where modules are loaded again ` +
    `(hot reload), keep it on globalThis: docs/guides/bundlers-and-frameworks.md shows how.`
  );
}

/** Loaded only here: it loads SQLite, which other callers load on the store's thread. */
async function startInProcess(): Promise<StartStore> {
  const { InProcess } = await import("./thread/in-process.ts");
  return (data) => new InProcess(data);
}

/**
 * With so many queues, the writer reads their figures in less than a millisecond. A server reads them every ten seconds
 * for the dashboard's history, and would otherwise always have a reading thread.
 */
const FEW_QUEUES = 20;

interface Opened {
  path: string;
  clock: Clock | undefined;
  /** Undefined: the writer also does slow reads. */
  reader: Reader | undefined;
}

class SqliteEngine implements Engine {
  /** One batch at a time. The thread coalesces batches that wait for it. */
  readonly depth = 16;
  readonly address: string;
  readonly #writer: Remote;
  readonly #hints: Hints;
  readonly #reader: Reader | undefined;
  readonly #clock: Clock | undefined;
  readonly #heart: HeartbeatTimer | undefined;
  /** Settles when everything that was sent to the writer is answered. */
  #written: Promise<unknown> = Promise.resolve();
  /** As many as the last list had, if it had all. */
  #queues = Number.POSITIVE_INFINITY;
  readonly #reads = new Set<Promise<unknown>>();
  #closed = false;

  constructor(writer: Remote, hints: Hints, { path, clock, reader }: Opened) {
    this.#writer = writer;
    this.#hints = hints;
    this.#reader = reader;
    this.address = path;
    this.#clock = clock;
    if (!clock) return;
    const beat = (request: { beat: number[] } | { notices: true }): Promise<boolean> => {
      const sent = writer.care(request, clock.read()).then(
        () => true,
        () => this.#closed,
      );
      this.#written = sent;
      return sent;
    };
    this.#heart = new HeartbeatTimer(clock.after.bind(clock), (sessions) => beat({ beat: sessions }));
    hints.onForeign = () => void beat({ notices: true });
  }

  onHint(listener: (hint: Hint) => void): void {
    this.#hints.listener = listener;
  }

  async execute<const Ops extends readonly Op[]>(ops: Ops): Promise<Outcomes<Ops>> {
    if (this.#closed) throw closed();
    const outcomes = await (this.#isSlowReading(ops) ? this.#read(ops, this.#reader!) : this.#write(ops));
    this.#countQueues(ops, outcomes);
    return outcomes as unknown as Outcomes<Ops>;
  }

  #isSlowReading(ops: readonly Op[]): boolean {
    return (
      this.#reader !== undefined &&
      ops.every((op) => READING_VERBS.has(op.verb)) &&
      ops.some((op) => !this.#isFast(op))
    );
  }

  /** Fast reads use the writer, unless they come with slow ones. */
  #isFast(op: Op): boolean {
    if (op.verb === "queues") return Math.min(op.limit, this.#queues) <= FEW_QUEUES;
    return op.verb === "ends" || op.verb === "steps";
  }

  #countQueues(ops: readonly Op[], outcomes: readonly Outcome[]): void {
    for (const [index, op] of ops.entries()) {
      if (op.verb !== "queues" || op.queue !== undefined || op.after !== undefined) continue;
      const outcome = outcomes[index] as Outcome<"queues">;
      if ("ok" in outcome)
        this.#queues = outcome.ok.next === null ? outcome.ok.items.length : Number.POSITIVE_INFINITY;
    }
  }

  async #write(ops: readonly Op[]): Promise<Outcome[]> {
    for (const op of ops) if (op.verb === "leave") this.#heart?.leave(op.session);
    const answer = this.#writer.run(ops, this.#clock?.read() ?? null);
    this.#written = answer.catch(() => {});
    const outcomes = await answer;
    if (this.#heart) this.#follow(this.#heart, ops, outcomes);
    return outcomes;
  }

  /** On the reading thread, after the batches that were sent before: a caller reads its own writes. */
  async #read(ops: readonly Op[], reader: Reader): Promise<Outcome[]> {
    const reading = this.#clock?.read() ?? null;
    const written = this.#written;
    // Copied now: the caller may change its objects while this waits.
    const copy = structuredClone(ops);
    const answer = (async () => {
      await written;
      // A store that cannot be written to is not read either: callers must open it again.
      if (this.#writer.ended) throw this.#writer.ended;
      return reader.run(copy, reading);
    })();
    this.#reads.add(answer);
    try {
      return await answer;
    } finally {
      this.#reads.delete(answer);
    }
  }

  /** The writer does this if the clock is the machine's. */
  #follow(heart: HeartbeatTimer, ops: readonly Op[], outcomes: Outcome[]): void {
    for (const [index, op] of ops.entries()) {
      const outcome = outcomes[index]!;
      if (op.verb === "join" && "ok" in outcome && !this.#closed) {
        heart.join((outcome.ok as { session: number }).session, op.lease);
      }
      if (op.verb === "rejoin" && "ok" in outcome && !this.#closed) {
        const { session, lease } = outcome.ok as { session: number; lease: number };
        heart.leave(op.session);
        heart.join(session, lease);
      }
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#heart?.stop();
    await Promise.allSettled(this.#reads);
    await this.#reader?.close();
    await this.#writer.close();
  }
}

/** Passes hints to the one listener; there may be none yet. */
class Hints {
  listener: (hint: Hint) => void = () => {};
  onForeign: () => void = () => {};

  readonly deliver = (hint: Hint): void => {
    if (hint.foreign) this.onForeign();
    this.listener(hint);
  };
}
