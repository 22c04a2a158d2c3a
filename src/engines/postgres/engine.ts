import { hostAndDatabaseOf } from "../../core/address.ts";
import type { Conflict } from "../../core/commit.ts";
import { type ErrorData, errorFrom, invalid } from "../../core/errors.ts";
import { type Logger, SILENT } from "../../core/logger.ts";
import { show } from "../../core/show.ts";
import {
  type ClaimOutcome,
  type Engine,
  type Hint,
  type Op,
  type Outcome,
  type Outcomes,
  READING_VERBS,
  type VerbName,
  type Verbs,
  type TransactionVerb,
} from "../../engine/engine.ts";
import { systemClock } from "../../engine/system-clock.ts";
import { SettleConnection, isFree } from "./batch/settle-connection.ts";
import { failureFrom } from "./connection/failure.ts";
import { checkFloors, raiseFloors, Raising } from "./line/floors.ts";
import { Notifier } from "./connection/notifier.ts";
import { identityOf } from "./connection/identity.ts";
import { Connection, type ConnectionOptions } from "./connection/connection.ts";
import { ownLook } from "./caller/read-latest.ts";
import { checkOneHost, checkSchemaName, openConnection, whileFull } from "./connection/open.ts";
import { HeartbeatThread, type PulseData, type StartHeartbeats } from "./heartbeat/heartbeats.ts";
import { closed, ReconnectingStore } from "./batch/reconnecting-store.ts";
import { Sender } from "./batch/sender.ts";
import { type Durability, settingsFor } from "./connection/settings.ts";
import { watchForStall } from "./connection/stall-check.ts";
import type { BatchResult } from "./batch/batch-result.ts";
import type { OnConflict } from "./batch/store.ts";
import type { TxOptions } from "./transaction/tx.ts";
import { CommitWatch } from "./connection/watch-commits.ts";
import { type KnownQueue, type StoreLookups, CallerTransaction } from "./caller/caller-transaction.ts";
import { settleWithin } from "./caller/caller-ack.ts";

/**
 * The engine on PostgreSQL, for api/open.ts. It chooses a connection for each batch (writing, settling or reading),
 * passes hints to the broker and to the notifier, and registers sessions for heartbeats.
 */

export interface PostgresOptions {
  url: string;
  /** Where the tables are; several stores can share a database. */
  schema?: string;
  /** False: a schema that is not there is not made. */
  create?: boolean;
  durability?: Durability;
  /** False behind a transaction pooler such as PgBouncer: nothing is then kept on a connection between transactions. */
  listen?: boolean;
  /** What was certainly not carried out is tried again for so many milliseconds, before its caller is told. */
  patience?: number;
  /** Told of what no caller is told. */
  logger?: Logger;
  /** Told of every batch that is tried again because the server undid it. */
  onConflict?: OnConflict;
}

const CONNECT_MS = 10_000;
const PATIENCE_MS = 15_000;

/** Until notes are taken up that were left for a batch after others' commits: most of these take as long as one. */
const FIRST_NOTES_MS = 2;
const LONGEST_NOTES_MS = 1_000;

/**
 * Opens a store in a PostgreSQL database, or makes it unless told not to. Any number of processes, on any machines, may have it open.
 * `heartbeats`: who beats for the sessions; a thread of its own, but for tests that move the server's clock.
 */
export async function openPostgres(
  options: PostgresOptions,
  heartbeats: StartHeartbeats = (...given) => new HeartbeatThread(...given),
): Promise<Engine> {
  const { url, durability = "full", create = true, listen = true } = options;
  const { patience = PATIENCE_MS, logger = SILENT, onConflict = () => {} } = options;
  const schema = checkSchemaName(options.schema ?? "dibs");
  if (typeof listen !== "boolean") throw invalid(`listen must be true or false, not ${show(listen)}.`);
  checkOneHost(url);
  const link: ConnectionOptions = {
    url,
    schema,
    prepare: listen,
    settings: listen ? settingsFor(durability) : {},
    connectMs: CONNECT_MS,
  };
  const until = performance.now() + patience;
  const first = await openConnection({ link, until, create });
  const tx: TxOptions = { session: listen, durability };
  const engine = new PostgresEngine(first, { link, tx, patience, onConflict }, logger, heartbeats);
  try {
    await whileFull(until, () => engine.start(listen));
  } catch (error) {
    await engine.close();
    throw failureFrom(error, hostAndDatabaseOf(url));
  }
  return engine;
}

function okOf<T>(outcome: { ok: T } | { refused: ErrorData }): T {
  if ("refused" in outcome) throw errorFrom(outcome.refused);
  return outcome.ok;
}

const CONFLICTS = { deadlock: "a deadlock", serialization: "a serialization failure" };

function triedAgain({ conflict }: Conflict, where: string): string {
  return `PostgreSQL at ${where} rolled a batch back because of ${CONFLICTS[conflict]}. It is tried again.`;
}

function notChecked(error: unknown): string {
  const words = error instanceof Error ? error.message : String(error);
  return `It could not be seen whether tasks stand where claims no longer look (${words}). It is tried again in half a minute.`;
}

function runVerb(within: CallerTransaction, op: Op<TransactionVerb>): Promise<Verbs[TransactionVerb]["out"]> {
  switch (op.verb) {
    case "add":
      return within.add(op.tasks);
    case "publish":
      return within.publish(op.message);
    case "settle":
      return settleWithin(within, op.id, op.fence, op.settlement, op.spent);
  }
}

class PostgresEngine implements Engine {
  /** Whatever comes is taken at once: what has to wait gathers where its connection is known (sender.ts). */
  readonly depth = Number.POSITIVE_INFINITY;
  readonly address: string;
  readonly #link: ConnectionOptions;
  readonly #logger: Logger;
  readonly #writer: Sender;
  /** For successes by the hundred: see settle-connection.ts. */
  readonly #settler: Sender;
  readonly #reader: Sender;
  readonly #reaches: readonly ReconnectingStore[];
  readonly #heart: ReturnType<StartHeartbeats>;
  readonly #beside = new SettleConnection();
  readonly #sessions = new Set<number>();
  readonly #raising = new Raising();
  #herald: Notifier | undefined;
  /** Of callers' transactions, where no notification tells of them. */
  #commits: CommitWatch | undefined;
  #listener: (hint: Hint) => void = () => {};
  #notes: NodeJS.Timeout | undefined;
  #notesPause = FIRST_NOTES_MS;
  readonly #underWay = new Set<Promise<unknown>>();
  #closed = false;

  constructor(
    first: Connection,
    given: Pick<PulseData, "link" | "tx" | "patience"> & { onConflict: OnConflict },
    logger: Logger,
    heartbeats: StartHeartbeats,
  ) {
    const { link, tx, patience } = given;
    this.#link = link;
    this.#logger = logger;
    const connect = (): Promise<Connection> => Connection.open(link);
    const where = hostAndDatabaseOf(link.url);
    this.address = where;
    const onConflict: OnConflict = (conflict) => {
      logger.warn(triedAgain(conflict, where));
      given.onConflict(conflict);
    };
    const reach = { connect, tx, where, patience, onConflict };
    const writing = new ReconnectingStore(reach, first);
    const settling = new ReconnectingStore(reach);
    this.#writer = new Sender(writing, (ran) => this.#herald?.messageFor(ran.hint, { ...ran, ended: false }));
    this.#settler = new Sender(settling);
    const looking = new ReconnectingStore(reach);
    this.#reader = new Sender(looking);
    this.#reaches = [writing, settling, looking];
    this.#heart = heartbeats(
      { link, tx, where, patience },
      (report) => {
        if ("ran" in report) this.#heard(report.ran);
        else if ("conflict" in report) onConflict(report);
        else this.#lost(report.lost);
      },
      (error) => logger.error(`The thread of the heartbeats ended, and is started again: ${error.message}`),
      (sessions) => this.#beat(sessions),
    );
  }

  async start(listen: boolean): Promise<void> {
    const connect = (): Promise<Connection> => Connection.open(this.#link);
    this.#herald = new Notifier({
      connect: async () => {
        const link = await connect();
        watchForStall(link, { connect });
        return link;
      },
      listen,
      onHint: (hint, noticed) => {
        this.#listener(hint);
        if (noticed) void this.#fetchNotices();
      },
    });
    await this.#herald.start();
    if (!listen) {
      this.#commits = new CommitWatch({
        ask: (question) => this.#during(this.#reader.askOnce(({ link }) => question(link))),
        onCommit: () => {
          if (!this.#closed) this.#listener({ foreign: true });
        },
      });
    }
  }

  onHint(listener: (hint: Hint) => void): void {
    this.#listener = listener;
  }

  async execute<const Ops extends readonly Op[]>(ops: Ops): Promise<Outcomes<Ops>> {
    if (this.#closed) throw closed();
    const isReading = ops.every((op) => READING_VERBS.has(op.verb));
    const outcomes = await (isReading ? this.#read(ops) : this.#write(ops));
    return outcomes as unknown as Outcomes<Ops>;
  }

  async #write(ops: readonly Op[]): Promise<Outcome[]> {
    // Whatever becomes of it: who asked to leave gives no more signs of life.
    for (const op of ops) if (op.verb === "leave") this.#forget(op.session);
    const sentAt = systemClock.read().awake;
    const ran = await this.#inTurn(ops);
    this.#follow(ops, ran.outcomes, sentAt);
    this.#tell(ops, ran);
    this.#raising.noteStirred(ran.stirred);
    void this.#raiseFloors();
    void this.#checkFloors();
    if (ran.noticed) void this.#fetchNotices();
    return ran.outcomes;
  }

  /** One after the other, on one connection; but for successes by the hundred. */
  async #inTurn(ops: readonly Op[]): Promise<BatchResult> {
    if (!isFree(ops)) {
      return this.#during(this.#beside.without(this.#writer.run(ops, { after: this.#settler.answered })));
    }
    if (!this.#beside.suits(ops, this.#settler.isBusy)) return this.#during(this.#writer.runTogether(ops));
    const ran = await this.#during(this.#settler.runTogether(ops));
    if (ran.special > 0) this.#beside.rest();
    return ran;
  }

  /** Beside the writer, for which it waits as all others do. */
  async #raiseFloors(): Promise<void> {
    const due = this.#closed ? undefined : this.#raising.take();
    if (!due) return;
    try {
      await this.#during(this.#settler.askOnce(({ link }) => raiseFloors(link, due.queues, due.patience)));
      this.#raising.raised();
    } catch {
      // Somebody's batch has been open for long, or the server is away: claims begin where they did before.
      this.#raising.failed(due.queues);
    }
  }

  async #checkFloors(): Promise<void> {
    if (this.#closed || !this.#raising.isToCheck()) return;
    try {
      await this.#during(this.#settler.askOnce(({ link }) => checkFloors(link)));
      this.#raising.checked(true);
    } catch (error) {
      this.#raising.checked(false);
      if (!this.#closed) this.#logger.warn(notChecked(error));
    }
  }

  /** Settles when every batch that writes has its answer. */
  get #written(): Promise<unknown> {
    return Promise.all([this.#writer.answered, this.#settler.answered]);
  }

  /** Beside the writer, and after what was asked of it before: a caller sees its own writes. */
  async #read(ops: readonly Op[]): Promise<Outcome[]> {
    const written = this.#written;
    const askedAt = performance.now();
    const ran = await this.#during(written.then(() => this.#reader.run(ops, { askedAt })));
    if (!ran.hasInbox) return ran.outcomes;
    // Somebody's own transaction has committed: what it brought is to be seen too.
    await this.#write([{ verb: "housekeep" }]);
    return (await this.#during(this.#reader.run(ops))).outcomes;
  }

  async executeInTransaction<V extends TransactionVerb>(tx: unknown, op: Op<V>): Promise<Outcome<V>> {
    if (this.#closed) throw closed();
    const within = await CallerTransaction.begin(tx, this.#surroundings());
    const answer = await runVerb(within, op);
    if (within.xid !== undefined) this.#commits?.watch(within.xid);
    return { ok: answer } as Outcome<V>;
  }

  #surroundings(): StoreLookups {
    return {
      schema: this.#link.schema,
      where: hostAndDatabaseOf(this.#link.url),
      identity: (how) => this.#askBeside((link) => identityOf(link, how)),
      queues: (names) => this.#knownQueues(names),
      depth: async (queue) => {
        const { ready, waiting, scheduled } = okOf(await this.#look({ verb: "stats", queue })).depth;
        return ready + waiting + scheduled;
      },
      stateOf: async (id) => {
        const found = await this.#look({ verb: "get", id });
        return "ok" in found ? found.ok.state : undefined;
      },
      reachedBy: async (topic) =>
        okOf(await this.#look({ verb: "subscriptions", topic })).map(({ queue }) => queue),
      look: ownLook((question) => this.#askBeside(question)),
    };
  }

  /** A question that may be asked any number of times, on the connection that reads. */
  #askBeside<T>(question: (link: Connection) => Promise<T>): Promise<T> {
    return this.#during(this.#reader.ask(({ link }) => question(link)));
  }

  async #knownQueues(names: string[]): Promise<Map<string, KnownQueue>> {
    const find = (): Promise<Map<string, KnownQueue>> =>
      this.#during(this.#reader.ask((store) => store.queues(names)));
    const known = await find();
    const missing = names.filter((name) => !known.has(name));
    if (missing.length === 0) return known;
    await this.#doNow(missing.map((queue) => ({ verb: "declare", queue, policy: {} })));
    return find();
  }

  /**
   * For a transaction of the caller's. Not behind what else was asked of this store: that may be waiting for this very
   * transaction, which would then wait for itself.
   */
  async #look<V extends VerbName>(op: Op<V>): Promise<Outcome<V>> {
    const ask = (): Promise<BatchResult> => this.#during(this.#reader.run([op]));
    let ran = await ask();
    if (ran.hasInbox) {
      await this.#doNow([{ verb: "housekeep" }]);
      ran = await ask();
    }
    return ran.outcomes[0] as Outcome<V>;
  }

  /** The same for what is written: on the connection that reads. */
  async #doNow(ops: readonly Op[]): Promise<void> {
    const ran = await this.#during(this.#reader.run(ops));
    this.#tell(ops, ran);
  }

  async #during<T>(work: Promise<T>): Promise<T> {
    this.#underWay.add(work);
    try {
      return await work;
    } finally {
      this.#underWay.delete(work);
    }
  }

  #tell(ops: readonly Op[], ran: BatchResult): void {
    this.#listener(ran.hint);
    if (ran.leftInboxEntries) this.#takeUpLater();
    else this.#notesPause = FIRST_NOTES_MS;
    if (!ran.changed) return;
    // Whoever waits for a result may be in another process.
    const ended = ops.some((op) => op.verb === "settle");
    if (!ran.told) this.#herald?.tell(ran.hint, { ...ran, ended });
    else if (ended) this.#herald?.tell({ ended }, { noticed: false, listened: false, ended });
  }

  /** What was left for after others' commits: soon, and later each time, for one of them may hang. The slow poll of any process does it too. */
  #takeUpLater(): void {
    this.#notes ??= setTimeout(() => {
      this.#notes = undefined;
      if (!this.#closed) void this.#write([{ verb: "housekeep" }]).catch(() => {});
    }, this.#notesPause).unref();
    this.#notesPause = Math.min(this.#notesPause * 2, LONGEST_NOTES_MS);
  }

  #follow(ops: readonly Op[], outcomes: readonly Outcome[], sentAt: number): void {
    for (const [index, op] of ops.entries()) {
      const outcome = outcomes[index]!;
      if (op.verb === "join" && "ok" in outcome && !this.#closed) {
        const { session } = outcome.ok as { session: number };
        this.#join(session, op.lease, sentAt);
      }
      if (op.verb === "claim" && "ok" in outcome) {
        const claimed = outcome.ok as ClaimOutcome;
        this.#beside.note(claimed);
        this.#raising.note(claimed.tasks);
      }
      if (op.verb === "rejoin" && "ok" in outcome && !this.#closed) {
        const { session, lease } = outcome.ok as { session: number; lease: number };
        this.#forget(op.session);
        this.#join(session, lease, sentAt);
      }
    }
  }

  #join(session: number, lease: number, sentAt: number): void {
    this.#sessions.add(session);
    this.#heart.join(session, lease, sentAt);
  }

  #forget(session: number): void {
    this.#sessions.delete(session);
    this.#heart.leave(session);
  }

  /** Answers whether it came through. */
  async #beat(sessions: number[]): Promise<boolean> {
    if (this.#closed) return true;
    const ops: Op[] = [{ verb: "heartbeat", sessions }];
    try {
      this.#heard(await this.#inTurn(ops));
      return true;
    } catch {
      // Whoever uses the store is told of its troubles by their own calls; a beat is simply made again.
      return this.#closed;
    }
  }

  /** What a beat brought: it ends what is overdue, so it has more to tell than notices. */
  #heard(ran: BatchResult): void {
    if (this.#closed) return;
    const { notices } = (ran.outcomes[0] as Extract<Outcome<"heartbeat">, { ok: unknown }>).ok;
    for (const notice of notices) if (notice.kind === "gone") this.#forget(notice.session);
    this.#tell([], notices.length > 0 ? { ...ran, hint: { ...ran.hint, notices } } : ran);
  }

  /** Nothing came through for a whole lease: others have what they held by now, or may have it at any moment. */
  #lost(sessions: number[]): void {
    if (this.#closed) return;
    for (const session of sessions) this.#forget(session);
    this.#listener({ notices: sessions.map((session) => ({ session, kind: "gone" })) });
  }

  /** For the sessions that beat here. A store that cannot be asked now is asked again by the next beat. */
  async #fetchNotices(): Promise<void> {
    if (this.#sessions.size === 0 || this.#closed) return;
    try {
      await this.#written;
      const noticed = await this.#during(this.#reader.ask((store) => store.noticed([...this.#sessions])));
      if (noticed.length > 0) await this.#beat(noticed);
    } catch {
      // See above.
    }
  }

  stopRetrying(): void {
    for (const reach of this.#reaches) reach.hurry();
  }

  async close(): Promise<void> {
    this.stopRetrying();
    this.#closed = true;
    clearTimeout(this.#notes);
    this.#commits?.close();
    await this.#heart.stop();
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
    await this.#herald?.close();
    await this.#reader.close();
    await this.#settler.close();
    await this.#writer.close();
  }
}
