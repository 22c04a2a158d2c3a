import type { Clock } from "../../core/time/clock.ts";
import { type Logger, SILENT } from "../../core/process/logger.ts";
import { type Engine, type Op, type Outcome, type Outcomes, READING_VERBS } from "../../engine/engine.ts";
import type { Hint } from "../../engine/hint.ts";
import { realPathOf } from "../../engine/real-file.ts";
import { HeartbeatTimer } from "../../engine/heartbeat-timer.ts";
import type { ThreadData } from "./thread/messages.ts";
import type { Durability } from "./connection/journal.ts";
import { closed, Remote, type StartStore } from "./thread/remote.ts";
import { StoreThreads } from "./thread/store-threads.ts";

/**
 * The engine on SQLite, for api/open.ts. It sends batches to the writing thread, and slow reads to a reading thread.
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
  const startReader = isBrief || path === ":memory:" ? undefined : startThread;
  return new SqliteEngine(writer, hints, { data, clock, startReader });
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

interface Opened {
  data: ThreadData;
  clock: Clock | undefined;
  /** Undefined: the writer also does slow reads. */
  startReader: StartStore | undefined;
}

class SqliteEngine implements Engine {
  /** One batch at a time. The thread coalesces batches that wait for it. */
  readonly depth = 16;
  readonly address: string;
  readonly #writer: Remote;
  readonly #hints: Hints;
  readonly #data: ThreadData;
  readonly #startReader: StartStore | undefined;
  readonly #clock: Clock | undefined;
  readonly #heart: HeartbeatTimer | undefined;
  /** Settles when everything that was sent to the writer is answered. */
  #written: Promise<unknown> = Promise.resolve();
  #reader: Promise<Remote> | undefined;
  readonly #reads = new Set<Promise<unknown>>();
  #closed = false;

  constructor(writer: Remote, hints: Hints, { data, clock, startReader }: Opened) {
    this.#writer = writer;
    this.#hints = hints;
    this.#data = data;
    this.#startReader = startReader;
    this.address = data.path;
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
    const outcomes = await (this.#isSlowReading(ops) ? this.#read(ops) : this.#write(ops));
    return outcomes as unknown as Outcomes<Ops>;
  }

  /** `ends` and `steps` are frequent and fast: if the other reads are not slow, they use the writer. */
  #isSlowReading(ops: readonly Op[]): boolean {
    return (
      this.#startReader !== undefined &&
      ops.every((op) => READING_VERBS.has(op.verb)) &&
      ops.some((op) => op.verb !== "ends" && op.verb !== "steps")
    );
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
  async #read(ops: readonly Op[]): Promise<Outcome[]> {
    const reading = this.#clock?.read() ?? null;
    const written = this.#written;
    // Copied now: the caller may change its objects while this waits.
    const copy = structuredClone(ops);
    const answer = (async () => {
      await written;
      // A store that cannot be written to is not read either: callers must open it again.
      if (this.#writer.ended) throw this.#writer.ended;
      return (await this.#openReader()).run(copy, reading);
    })();
    this.#reads.add(answer);
    try {
      return await answer;
    } finally {
      this.#reads.delete(answer);
    }
  }

  /** Started when it is first needed, and again if it ended. */
  async #openReader(): Promise<Remote> {
    const last = this.#reader;
    const reader = await last?.catch(() => undefined);
    if (reader && !reader.ended) return reader;
    if (this.#reader === last)
      this.#reader = Remote.open({ ...this.#data, role: "reader" }, () => {}, this.#startReader!);
    return this.#reader!;
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
    const reader = await this.#reader?.catch(() => undefined);
    await reader?.close();
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
