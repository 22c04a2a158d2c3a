import { hostAndDatabaseOf, type PostgresPool } from "../../core/process/address.ts";
import type { Conflict } from "../../core/commit.ts";
import { invalid } from "../../core/errors/errors.ts";
import { type Logger, SILENT } from "../../core/process/logger.ts";
import { show } from "../../core/errors/show.ts";
import type { ClaimOutcome } from "../../engine/claim-request.ts";
import {
  type Engine,
  type Op,
  type Outcome,
  type Outcomes,
  READING_VERBS,
  type TransactionVerb,
  type VerbName,
} from "../../engine/engine.ts";
import type { Hint } from "../../engine/hint.ts";
import { systemClock } from "../../engine/system-clock.ts";
import type { BatchResult } from "./batch/batch-result.ts";
import { mayBeCoalesced } from "./batch/coalesced-batch.ts";
import { FloorMaintenance } from "./batch/floor-maintenance.ts";
import { closed, ReconnectingStore } from "./batch/reconnecting-store.ts";
import { Sender } from "./batch/sender.ts";
import { SettleConnection } from "./batch/settle-connection.ts";
import type { OnConflict } from "./batch/store.ts";
import { executeInCallersTransaction } from "./caller/execute.ts";
import { type StoreLookups, storeLookups } from "./caller/store-lookups.ts";
import { Connection, type ConnectionOptions } from "./connection/connection.ts";
import { failureFrom } from "./connection/failure.ts";
import { GivenPassword, type GivePassword, type PasswordSource } from "./connection/password.ts";
import { readPool } from "./connection/pool.ts";
import { Notifier } from "./connection/notifier.ts";
import { checkOneHost, checkSchemaName, openConnection, whileFull } from "./connection/open.ts";
import { type Durability, settingsFor } from "./connection/settings.ts";
import { watchForStall } from "./connection/stall-check.ts";
import { CommitWatch } from "./connection/watch-commits.ts";
import { HeartbeatsHere } from "./heartbeat/heartbeats-here.ts";
import { type HeartbeatData, HeartbeatThread, type StartHeartbeats } from "./heartbeat/heartbeats.ts";
import { Sessions } from "./heartbeat/sessions.ts";

/**
 * The engine on PostgreSQL, for api/open.ts. It chooses a connection for each batch (writing, settling or reading), passes hints to
 * the broker and to the notifier, and registers sessions for heartbeats.
 */

export interface PostgresOptions {
  /** An address, or a pool of the user that connects as dibs shall. */
  url: string | PostgresPool;
  /** Called for every connection, instead of the password of the address or pool. */
  password?: GivePassword;
  /** The schema that has the tables; several stores can share a database. */
  schema?: string;
  /** False: a schema that does not exist is not created. */
  create?: boolean;
  durability?: Durability;
  /** False behind a transaction pooler such as PgBouncer: a connection then keeps nothing between transactions. */
  listen?: boolean;
  /** For how many milliseconds something that certainly did not happen is retried, before the caller gets the error. */
  patience?: number;
  /** Gets what no caller gets as an error. */
  logger?: Logger;
  /** Called for every batch that is retried because the server rolled it back. */
  onConflict?: OnConflict;
}

const CONNECT_MS = 10_000;
const PATIENCE_MS = 15_000;

/** Until inbox entries are processed that were left for a batch after another commit. Most commits take about 2 ms. */
const FIRST_INBOX_MS = 2;
const LONGEST_INBOX_MS = 1_000;

/**
 * Opens a store in a PostgreSQL database. Any number of processes, on any machines, may have it open.
 * `heartbeats`: tests that move the server's clock pass their own; otherwise a thread sends them.
 */
export async function openPostgres(options: PostgresOptions, heartbeats?: StartHeartbeats): Promise<Engine> {
  const { durability = "full", create = true, listen = true } = options;
  const from = typeof options.url === "string" ? undefined : readPool(options.url);
  const url = from?.url ?? (options.url as string);
  const give = options.password ?? from?.password;
  const password = give && new GivenPassword(give);
  const { patience = PATIENCE_MS, logger = SILENT, onConflict = () => {} } = options;
  const schema = checkSchemaName(options.schema ?? "dibs");
  if (typeof listen !== "boolean") throw invalid(`listen must be true or false, not ${show(listen)}.`);
  checkOneHost(url);
  const link: ConnectionOptions = {
    url,
    ...(from && { pool: from.pool }),
    schema,
    prepare: listen,
    settings: listen ? settingsFor(durability) : {},
    connectMs: CONNECT_MS,
  };
  const until = performance.now() + patience;
  const first = await openConnection({ link: { ...link, password }, until, create });
  const data = { link, tx: { session: listen, durability }, where: hostAndDatabaseOf(url), patience };
  const startHeartbeats: StartHeartbeats = (...given) =>
    from?.canBeCloned === false
      ? new HeartbeatsHere(given[1], given[3])
      : new HeartbeatThread(...given, password);
  const engine = new PostgresEngine(first, data, {
    ...{ logger, onConflict, password },
    heartbeats: heartbeats ?? startHeartbeats,
  });
  try {
    await whileFull(until, () => engine.start(listen));
  } catch (error) {
    await engine.close();
    throw failureFrom(error, hostAndDatabaseOf(url));
  }
  return engine;
}

const CONFLICTS = { deadlock: "a deadlock", serialization: "a serialization failure" };

function rolledBack({ conflict }: Conflict, where: string): string {
  return `PostgreSQL at ${where} rolled a batch back because of ${CONFLICTS[conflict]}. It is tried again.`;
}

class PostgresEngine implements Engine {
  /** The broker need not wait: Sender coalesces the batches that wait for their connection. */
  readonly depth = Number.POSITIVE_INFINITY;
  readonly address: string;
  readonly #link: ConnectionOptions;
  readonly #stores: readonly ReconnectingStore[];
  readonly #writer: Sender;
  readonly #reader: Sender;
  /** For acks in bulk and for floors. */
  readonly #settler: Sender;
  readonly #acks: SettleConnection;
  readonly #floors: FloorMaintenance;
  readonly #sessions: Sessions;
  readonly #lookups: StoreLookups;
  #notifier: Notifier | undefined;
  /** Watches callers' transactions if no notification reports their commits. */
  #commits: CommitWatch | undefined;
  #listener: (hint: Hint) => void = () => {};
  #inboxTimer: NodeJS.Timeout | undefined;
  #inboxPause = FIRST_INBOX_MS;
  readonly #inProgress = new Set<Promise<unknown>>();
  #closed = false;

  constructor(
    first: Connection,
    data: HeartbeatData,
    given: {
      logger: Logger;
      onConflict: OnConflict;
      heartbeats: StartHeartbeats;
      password: PasswordSource | undefined;
    },
  ) {
    const { tx, where, patience } = data;
    const { logger, password } = given;
    const link = { ...data.link, password };
    this.#link = link;
    this.address = where;
    const onConflict: OnConflict = (conflict) => {
      logger.warn(rolledBack(conflict, where));
      given.onConflict(conflict);
    };
    const options = { connect: () => Connection.open(link), tx, where, patience, onConflict };
    const writing = new ReconnectingStore(options, first);
    const reading = new ReconnectingStore(options);
    const settling = new ReconnectingStore(options);
    this.#stores = [writing, reading, settling];
    this.#writer = new Sender(writing, (result) =>
      this.#notifier?.messageFor(result.hint, { ...result, ended: false }),
    );
    this.#reader = new Sender(reading);
    this.#settler = new Sender(settling);
    this.#acks = new SettleConnection(this.#settler);
    this.#floors = new FloorMaintenance(this.#settler, (message) => logger.warn(message));
    this.#sessions = new Sessions(
      {
        data,
        execute: (ops) => this.#send(ops),
        withNotices: async (sessions) => {
          await this.#written;
          return this.#during(this.#reader.query((store) => store.noticed(sessions)));
        },
        onCommit: (result) => this.#report([], result),
        onHint: (hint) => this.#listener(hint),
        onConflict,
        onThreadFailure: (error) =>
          logger.error(`The thread of the heartbeats ended, and is started again: ${error.message}`),
      },
      given.heartbeats,
    );
    this.#lookups = storeLookups({
      schema: link.schema,
      where,
      query: (work) => this.#during(this.#reader.query((store) => work(store.link))),
      findQueues: (names) => this.#during(this.#reader.query((store) => store.queues(names))),
      read: (op) => this.#readNow(op),
      write: (ops) => this.#writeNow(ops),
    });
  }

  async start(listen: boolean): Promise<void> {
    const connect = (): Promise<Connection> => Connection.open(this.#link);
    this.#notifier = new Notifier({
      connect: async () => {
        const link = await connect();
        watchForStall(link, { connect });
        return link;
      },
      listen,
      onHint: (hint, hasNotices) => {
        this.#listener(hint);
        if (hasNotices) void this.#sessions.fetchNotices();
      },
    });
    await this.#notifier.start();
    if (!listen) {
      this.#commits = new CommitWatch({
        query: (work) => this.#during(this.#reader.queryOnce(({ link }) => work(link))),
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
    this.#sessions.before(ops);
    const sentAt = systemClock.read().awake;
    const result = await this.#send(ops);
    this.#sessions.after(ops, result.outcomes, sentAt);
    this.#report(ops, result);
    for (const [index, op] of ops.entries()) {
      const outcome = result.outcomes[index]!;
      if (op.verb !== "claim" || !("ok" in outcome)) continue;
      const claimed = outcome.ok as ClaimOutcome;
      this.#acks.noteClaimed(claimed);
      this.#floors.noteClaimed(claimed.tasks);
    }
    void this.#during(this.#floors.after(result));
    if (result.hasNotices) void this.#sessions.fetchNotices();
    return result.outcomes;
  }

  #send(ops: readonly Op[]): Promise<BatchResult> {
    return this.#during(
      mayBeCoalesced(ops)
        ? (this.#acks.send(ops) ?? this.#writer.runCoalesced(ops))
        : this.#acks.exclude(this.#writer.run(ops, { after: this.#acks.answered })),
    );
  }

  /** Settles when every batch that writes has its answer. */
  get #written(): Promise<unknown> {
    return Promise.all([this.#writer.answered, this.#settler.answered]);
  }

  /** After all batches that were sent before: a caller reads its own writes. */
  async #read(ops: readonly Op[]): Promise<Outcome[]> {
    const calledAt = performance.now();
    const written = this.#written;
    const result = await this.#during(written.then(() => this.#reader.run(ops, { calledAt })));
    if (!result.hasInbox) return result.outcomes;
    // A caller's transaction has committed. What it added is to be seen too.
    await this.#write([{ verb: "housekeep" }]);
    return (await this.#during(this.#reader.run(ops))).outcomes;
  }

  async executeInTransaction<V extends TransactionVerb>(tx: unknown, op: Op<V>): Promise<Outcome<V>> {
    if (this.#closed) throw closed();
    const { answer, xid } = await executeInCallersTransaction(tx, op, this.#lookups);
    if (xid !== undefined) this.#commits?.watch(xid);
    return { ok: answer } as Outcome<V>;
  }

  /** Without waiting for the batches before: one of them may wait for the caller's transaction that this is for. */
  async #readNow<V extends VerbName>(op: Op<V>): Promise<Outcome<V>> {
    const read = (): Promise<BatchResult> => this.#during(this.#reader.run([op]));
    let result = await read();
    if (result.hasInbox) {
      await this.#writeNow([{ verb: "housekeep" }]);
      result = await read();
    }
    return result.outcomes[0] as Outcome<V>;
  }

  /** As readNow: on the reading connection. */
  async #writeNow(ops: readonly Op[]): Promise<void> {
    this.#report(ops, await this.#during(this.#reader.run(ops)));
  }

  /** `close` waits for it. */
  async #during<T>(work: Promise<T>): Promise<T> {
    this.#inProgress.add(work);
    try {
      return await work;
    } finally {
      this.#inProgress.delete(work);
    }
  }

  /** Passes the effects of a commit to the broker and to other processes. */
  #report(ops: readonly Op[], result: BatchResult): void {
    this.#listener(result.hint);
    if (result.leftInboxEntries) this.#processInboxLater();
    else this.#inboxPause = FIRST_INBOX_MS;
    if (!result.changed) return;
    // A caller in another process may wait for the result of a task.
    const ended = ops.some((op) => op.verb === "settle");
    if (!result.isNotified) this.#notifier?.notify(result.hint, { ...result, ended });
    else if (ended) this.#notifier?.notify({ ended }, { hasNotices: false, hasListeners: false, ended });
  }

  /** Soon, and later each time, because another transaction may stay open. The slow poll of any process does it too. */
  #processInboxLater(): void {
    this.#inboxTimer ??= setTimeout(() => {
      this.#inboxTimer = undefined;
      if (!this.#closed) void this.#write([{ verb: "housekeep" }]).catch(() => {});
    }, this.#inboxPause).unref();
    this.#inboxPause = Math.min(this.#inboxPause * 2, LONGEST_INBOX_MS);
  }

  stopRetrying(): void {
    for (const store of this.#stores) store.hurry();
  }

  async close(): Promise<void> {
    this.stopRetrying();
    this.#closed = true;
    clearTimeout(this.#inboxTimer);
    this.#commits?.close();
    this.#floors.stop();
    await this.#sessions.stop();
    while (this.#inProgress.size > 0) await Promise.allSettled(this.#inProgress);
    await this.#notifier?.close();
    for (const sender of [this.#reader, this.#settler, this.#writer]) await sender.close();
  }
}
