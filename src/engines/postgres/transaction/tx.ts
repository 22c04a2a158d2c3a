import { formatTaskId, parseTaskId, type TaskIdParts } from "../../../core/task/task-id.ts";
import type { Hint } from "../../../engine/hint.ts";
import { closedError } from "../../../engine/transfer.ts";
import { LocksNeeded, type Wait } from "../connection/batch-conflicts.ts";
import { BEGIN, type Connection, type Value } from "../connection/connection.ts";
import { INCARNATION, NoIncarnation } from "../connection/incarnation.ts";
import { catalogueLock, gateLock } from "../connection/locks.ts";
import { type Durability, setLocally, settingsFor } from "../connection/settings.ts";
import { NO_RUNS, RunLocks, type RunsNeeded } from "../flows/run-locks.ts";
import { Limits } from "../limits/limits.ts";
import { Floors } from "../line/floors.ts";
import { HAS_INBOX_ENTRIES } from "../line/inbox-floor.ts";
import { checkKnown, CLOSED, describeSchema } from "../schema/migrations.ts";
import { allAnswered } from "../statements/all-answered.ts";
import { THIS_MOMENT } from "../statements/clock.ts";
import { Statements } from "../statements/statements.ts";
import { BatchState } from "./batch-state.ts";
import { Counters } from "./counters.ts";
import { Events } from "./events.ts";
import type { InsertPlace } from "./insert-order.ts";
import { Progress } from "./progress.ts";
import { QueueCache, type Version } from "./queue-cache.ts";
import { type Subscribing, Topics } from "./topics.ts";

/**
 * The transaction that every verb gets: begin, header, statements, numbers and ids, commit. What the verbs of a batch
 * share besides is in `batch`. PostgresStore (batch/store.ts) has one Tx for each connection, which begins again for
 * each batch and keeps its copies of queues and subscriptions.
 */

export interface TxOptions {
  /** False behind a transaction pooler: settings then last for one transaction. */
  session: boolean;
  durability: Durability;
}

const headerSql = (...also: string[]): string => `
  SELECT needs, ${CLOSED}, salt, revision, epoch, subscribed, unsubscribed, (SELECT count(*)::int4 FROM dibs.listener) AS listeners,
    ${HAS_INBOX_ENTRIES} AS inbox, ${also.join(", ")}
  FROM dibs.store WHERE one = 1`;
const CLOCK = `${THIS_MOMENT} AS clock`;
const OWN_INCARNATION = `${INCARNATION} AS incarnation`;
const HEADER_TO_READ = headerSql(CLOCK);
const HEADER = headerSql(CLOCK, OWN_INCARNATION);
const HEADER_WITH_XID = headerSql(`pg_current_xact_id()::text AS xid`, CLOCK, OWN_INCARNATION);
const NUMBERS = {
  seq: `SELECT nextval('dibs.seq')::int8 AS n FROM generate_series(1, $1::int4)`,
  fence: `SELECT nextval('dibs.fence')::int8 AS n FROM generate_series(1, $1::int4)`,
  session: `SELECT nextval('dibs.session_id')::int8 AS n FROM generate_series(1, $1::int4)`,
} as const;
const LAST_SEQ = `SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS n FROM dibs.seq`;
const XID = `SELECT pg_current_xact_id_if_assigned()::text AS xid`;

/** The shortest timeout that the server knows: a statement that is only tried. */
const TRY_MS = 1;
/** How long an exclusive batch waits for a lock: all other batches, heartbeats too, wait behind it. */
const EXCLUSIVE_MS = 500;

export type Mode = "reading" | "writing";

/** What is known about a batch before it begins. The locks are in the order of connection/locks.ts. */
export interface BatchPlan {
  /** It will most likely write, so the header assigns a transaction number: a round trip less at the end. */
  writes?: boolean;
  /** Queues whose gates it needs. */
  gates?: readonly number[];
  /** No other batch may be in progress. */
  exclusive?: boolean;
  runs?: RunsNeeded;
  /** Locks rows of which another transaction was found to hold one. */
  rows?: Wait | null;
  /** The hint of a transaction that has done a part of this batch's work. */
  hint?: Hint | undefined;
  /** Sends statements together with the header: see send-ahead.ts. */
  ahead?: () => void;
}

export class Tx extends Statements {
  readonly #options: TxOptions;
  batch = new BatchState();
  readonly queues = new QueueCache(this);
  readonly topics = new Topics(this);
  readonly counters = new Counters(this);
  readonly events = new Events(this);
  readonly floors = new Floors(this);
  readonly limits = new Limits(this);
  readonly runs = new RunLocks(this);
  readonly progress = new Progress();
  salt = 0;
  /** The one time of the transaction: the server's clock when it read the header. */
  now = 0;
  /** Callers' transactions have left entries in the inbox: see line/inbox.ts. */
  hasInbox = false;
  #xid: string | undefined;
  #incarnation: string | undefined;
  #isExclusive = false;
  #isReading = false;
  /** As SET takes it. */
  #lockTimeout = "DEFAULT";

  constructor(link: Connection, options: TxOptions) {
    super(link);
    this.#options = options;
  }

  // ── Begin, commit, roll back ────────────────────────────────────────────────────────────────────────────

  async begin(mode: Mode, plan: BatchPlan = {}): Promise<void> {
    this.#reset(mode, plan);
    this.#sendBegin(mode, plan);
    // If it fails, so do the statements behind it, with an error that does not name the reason.
    const locked = this.runs.begin(plan.runs ?? NO_RUNS).catch((error: unknown) => this.noteFailure(error));
    if (plan.rows) this.keep(this.link.query(plan.rows.sql, plan.rows.values));
    const header = this.get<HeaderRow>(headerFor(mode, plan));
    if (mode === "writing" && this.queues.areKnown) plan.ahead?.();
    const [row] = await allAnswered([header, locked]);
    await this.#readHeader(row);
  }

  #reset(mode: Mode, { exclusive = false, gates = [], hint }: BatchPlan): void {
    this.reset();
    this.batch = new BatchState(hint);
    this.queues.begin();
    this.topics.begin();
    this.floors.begin();
    this.runs.forget();
    this.progress.begin();
    this.events.forget();
    this.limits.begin(gates);
    this.#isExclusive = exclusive;
    this.#lockTimeout = exclusive ? `${EXCLUSIVE_MS}` : "DEFAULT";
    this.#isReading = mode === "reading";
  }

  #sendBegin(mode: Mode, plan: BatchPlan): void {
    this.keep(
      this.link.exec(
        mode === "reading"
          ? "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
          : `${BEGIN}; ${this.#lockGates(plan.gates ?? [])}${this.#lockCatalogue(plan.exclusive ?? false)}`,
      ),
    );
    if (!this.#options.session)
      this.keep(this.link.query(setLocally(settingsFor(this.#options.durability)), []));
  }

  /** In the order of the ids, as in every transaction, so that no two wait for each other. */
  #lockGates(gates: readonly number[]): string {
    const locks = gates.toSorted((a, b) => a - b).map((queue) => gateLock(this.link.schema, queue));
    return locks.map((lock) => `SELECT pg_advisory_xact_lock(${lock}); `).join("");
  }

  #lockCatalogue(exclusive: boolean): string {
    const lock = catalogueLock(this.link.schema);
    if (!exclusive) return `SELECT pg_advisory_xact_lock_shared(${lock})`;
    return `SET LOCAL lock_timeout = ${EXCLUSIVE_MS}; SELECT pg_advisory_xact_lock(${lock})`;
  }

  async #readHeader(row: HeaderRow | undefined): Promise<void> {
    if (row === undefined) throw new Error("the store's row is missing");
    checkKnown(this.link.schema, row.needs);
    if (row.closed !== null) throw closedError(row.closed, describeSchema(this.link.schema));
    if (row.incarnation === null) throw new NoIncarnation();
    this.#incarnation = row.incarnation;
    this.#xid = row.xid;
    this.salt = row.salt;
    this.now = row.clock;
    this.batch.now = row.clock;
    this.hasInbox = row.inbox;
    this.events.listeners = row.listeners;
    this.topics.latest = row;
    if (!this.queues.isCurrent(row)) await this.queues.follow(row);
  }

  /** Before the commit. Returns the transaction's number, with which the server can be asked for its outcome. */
  async finish(): Promise<string | null> {
    this.limits.flush();
    this.counters.flush();
    this.events.flush();
    if (!this.changed || this.#xid !== undefined) return this.#xid ?? null;
    return (await this.get<{ xid: string | null }>(XID))!.xid;
  }

  async undo(thrown: unknown): Promise<never> {
    this.forget();
    if (!this.link.ended) await this.link.exec("ROLLBACK").catch(() => this.link.destroy());
    throw thrown;
  }

  /** After a rollback: the copies may have been read from what this transaction wrote. */
  forget(): void {
    this.queues.forget();
    this.forgetSent();
    this.events.forget();
    this.counters.forget();
    this.progress.undo();
    this.topics.forget();
    this.limits.begin([]);
  }

  // ── The kind of transaction ─────────────────────────────────────────────────────────────────────────────

  /** It changes nothing, and reads one snapshot. */
  get isReading(): boolean {
    return this.#isReading;
  }

  /** It holds the catalogue's lock exclusively, or waits for it. */
  get isExclusive(): boolean {
    return this.#isExclusive;
  }

  /**
   * From here to the commit no other batch is in progress. A batch that did not begin so starts again: two that already
   * share the catalogue's lock would wait for each other.
   */
  needExclusive(): void {
    if (!this.#isExclusive) throw new LocksNeeded({ exclusive: true });
  }

  /** From here to its end, the transaction fails if it has to wait longer than that for a lock. */
  waitNoLongerThan(ms: number): void {
    this.#lockTimeout = `${ms}`;
    this.#setLockTimeout(this.#lockTimeout);
  }

  #setLockTimeout(to: string): void {
    this.keep(this.link.exec(`SET LOCAL lock_timeout = ${to}`));
  }

  /**
   * Inserts keys, groups or documents that another transaction may insert at the same time: then it waits for that one.
   * `places`: what is inserted. What is not behind everything that this transaction has inserted before is only tried
   * (insert-order.ts). Returns the rows that the statement returns, and how many it wrote.
   */
  async insert(
    places: () => readonly InsertPlace[],
    sql: string,
    ...values: Value[]
  ): Promise<{ rows: unknown[]; count: number }> {
    const isNext = this.batch.inserts.comeNext(places);
    if (!isNext) this.#setLockTimeout(`${TRY_MS}`);
    const answer = isNext ? this.link.query(sql, values) : this.attempt(sql, values);
    if (!isNext) this.#setLockTimeout(this.#lockTimeout);
    const { rows, rowCount } = await answer;
    return { rows, count: rowCount ?? 0 };
  }

  /** Before a batch begins: waits for locks of other transactions, and keeps none. */
  async waitFor({ sql, values }: Wait): Promise<void> {
    await this.link.exec(BEGIN);
    try {
      await this.link.query(sql, values);
    } finally {
      if (!this.link.ended) await this.link.exec("ROLLBACK").catch(() => this.link.destroy());
    }
  }

  /** It changed queues or subscriptions: the copies are wrong if it fails, and a next batch must not begin before. */
  get changedCopies(): boolean {
    return this.queues.changed || this.topics.changed;
  }

  /** The incarnation of the server that executes it; null in a transaction that only reads. */
  get incarnation(): string | null {
    return this.#incarnation ?? null;
  }

  // ── Ids and numbers ─────────────────────────────────────────────────────────────────────────────────────

  id(createdAt: number, seq: number): string {
    return formatTaskId(createdAt, seq, this.salt);
  }

  place(id: string): TaskIdParts | undefined {
    return parseTaskId(id, this.salt);
  }

  /** Unique numbers. Those of a transaction that fails are lost. */
  async numbers(kind: keyof typeof NUMBERS, count: number): Promise<number[]> {
    if (count === 0) return [];
    return (await this.link.rows(NUMBERS[kind], [count])).map((row) => row[0] as number);
  }

  /** The last number that a task or a position got. */
  async lastSeq(): Promise<number> {
    return (await this.get<{ n: number }>(LAST_SEQ))!.n;
  }
}

function headerFor(mode: Mode, { writes = false }: BatchPlan): string {
  if (mode === "reading") return HEADER_TO_READ;
  return writes ? HEADER_WITH_XID : HEADER;
}

interface HeaderRow extends Version, Subscribing {
  clock: number;
  xid?: string;
  /** Null: the server has crashed or was replaced, and no batch has begun its next incarnation. */
  incarnation?: string | null;
  /** How many steps of the schema a process must know. */
  needs: number;
  closed: string | null;
  salt: number;
  listeners: number;
  inbox: boolean;
}
