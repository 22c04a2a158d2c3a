import { formatTaskId, parseTaskId, type TaskIdParts } from "../../../core/task-id.ts";
import type { Hint } from "../../../engine/engine.ts";
import { closedError } from "../../../engine/transfer.ts";
import { allAnswered } from "../statements/all-answered.ts";
import { THIS_MOMENT } from "../statements/clock.ts";
import { Counters } from "./counters.ts";
import { Events } from "./events.ts";
import { Floors } from "../line/floors.ts";
import { QueueCache, type Queue, type Version } from "./queue-cache.ts";
import { catalogueLock, gateLock } from "../connection/locks.ts";
import type { Lane } from "../limits/lanes.ts";
import { LIFE, NoIncarnation } from "../connection/incarnation.ts";
import { BEGIN, type Connection } from "../connection/connection.ts";
import { Limits } from "../limits/limits.ts";
import { checkKnown, CLOSED, describeSchema } from "../schema/migrations.ts";
import { LocksNeeded } from "../connection/batch-conflicts.ts";
import { NO_RUNS, RunLocks, type RunsNeeded } from "../flows/run-locks.ts";
import { HAS_INBOX_ENTRIES } from "../line/inbox-floor.ts";
import { type Durability, setLocally, settingsFor } from "../connection/settings.ts";
import { Statements } from "../statements/statements.ts";
import { type Subscribing, Topics } from "./topics.ts";

/**
 * The transaction that every verb gets: it begins with the header, gives out numbers and ids, and holds the state of
 * the batch. PostgresStore (batch/store.ts) has one for each connection.
 */

export interface TxOptions {
  /** False behind a transaction pooler: settings then last for one transaction. */
  session: boolean;
  durability: Durability;
}

const HEADER_OF = (...also: string[]): string => `
  SELECT needs, ${CLOSED}, salt, revision, epoch, subscribed, unsubscribed, (SELECT count(*)::int4 FROM dibs.listener) AS listeners,
    ${HAS_INBOX_ENTRIES} AS inbox, ${also.join(", ")}
  FROM dibs.store WHERE one = 1`;
const CLOCK = `${THIS_MOMENT} AS clock`;
const OWN_LIFE = `${LIFE} AS life`;
const HEADER_TO_READ = HEADER_OF(CLOCK);
const HEADER = HEADER_OF(CLOCK, OWN_LIFE);
const HEADER_WITH_XID = HEADER_OF(`pg_current_xact_id()::text AS xid`, CLOCK, OWN_LIFE);
const NUMBERS = {
  seq: `SELECT nextval('dibs.seq')::int8 AS n FROM generate_series(1, $1::int4)`,
  fence: `SELECT nextval('dibs.fence')::int8 AS n FROM generate_series(1, $1::int4)`,
  session: `SELECT nextval('dibs.session_id')::int8 AS n FROM generate_series(1, $1::int4)`,
} as const;
const LAST_SEQ = `SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS n FROM dibs.seq`;
const LOCK_CLAIM = `SELECT 1 FROM dibs.claim WHERE task = $1 FOR UPDATE`;
const XID = `SELECT pg_current_xact_id_if_assigned()::text AS xid`;

export type Mode = "reading" | "writing";

/** What is known of a batch before it begins. */
export interface BatchPlan {
  /** Something will most likely be written. */
  writes?: boolean;
  /** It has to be alone: asked for at once, it cannot end in two that wait for each other to let go. */
  alone?: boolean;
  /** Queues whose gates it will need, and waits for before it has anything that others could wait for. */
  gates?: readonly number[];
  /** The same for runs. */
  runs?: RunsNeeded;
  /** A task whose claim it waits for. */
  claim?: number | null;
  /** Sends what need not wait for the header, along with it (send-ahead.ts), where queues are known; answers how many tasks' numbers
   * will certainly be asked for. */
  ahead?: () => number;
}

/**
 * What the verbs work in: the open transaction, with its time, the queues and the counters. There is one for each
 * connection, which begins again and again, and remembers some things in between.
 */
export class Tx extends Statements {
  readonly #options: TxOptions;
  readonly queues = new QueueCache(this);
  /** Who gets what is published. */
  readonly topics = new Topics(this);
  readonly counters = new Counters(this);
  readonly events = new Events(this);
  readonly floors = new Floors(this);
  /** What is known of groups and gates, and to be written. */
  readonly limits = new Limits(this);
  readonly runs = new RunLocks(this);
  salt = 0;
  /** By the server's clock, when the transaction began: its one time. */
  now = 0;
  /** Others' transactions have left something to be taken up: inbox.ts. */
  hasInbox = false;
  hint: Hint = {};
  /** What is remembered of the queues, or of the subscriptions, would be untrue, if this transaction failed. */
  copiesChanged = false;
  /** Notices were left for sessions, and nobody has asked which. */
  noticed = false;
  /** Nothing that time brings is left to be done at this moment: see sweep.ts. */
  swept = false;
  /** Tasks of runs have been seen on this connection. */
  meetsRuns = false;
  /** The last sweep may have left something that it could have dealt with: there was too much of it. */
  hasMoreDue = false;
  /** Groups whose heads have ended, and behind whom nobody was waiting: see free-groups.ts. */
  readonly idleLanes = new Map<string, Lane>();
  /** Something was left for a later batch, in the inbox. */
  leftInboxEntries = false;
  /** Live workers by queue, while nobody joins, leaves or beats: see elsewhere.ts. */
  readonly serving = new Map<string, string[]>();
  /** How a task is cancelled that has not ended; set by the store, for runs and tasks end each other. */
  cancelPending: (seq: number) => Promise<unknown> = async () => {};
  /** Gives a place to every task that others' transactions have brought to these queues by now; set by the store, too. */
  takeUpAll: (queues: readonly number[]) => Promise<void> = async () => {};
  /** The same of those that were overlooked. */
  takeUpFromFront: (queues: readonly number[]) => Promise<void> = async () => {};
  /** How far groups were looked at that may remember nothing any more: see housekeeping.ts. */
  prunedTo = { queue: 0, key: "" };
  /** The queues that are being dropped, and how far: see queues.ts. */
  readonly dropping = new Map<number, number>();
  /** The same before this transaction. */
  #droppingBefore = new Map<number, number>();
  #xid: string | undefined;
  #life: string | undefined;
  /** Where claims had something to do first when they were asked in their turn: retried tasks wait beside these lines. */
  readonly busyLines = new Set<Queue>();
  /** Queues to whose lines a claim of this batch has put back what did not fit into its answer. */
  readonly cutLines = new Set<Queue>();
  /** Numbers for tasks, fetched ahead. */
  #numbers: number[] = [];
  #isAlone = false;
  #isReading = false;

  constructor(link: Connection, options: TxOptions) {
    super(link);
    this.#options = options;
  }

  // ── Beginning and end ───────────────────────────────────────────────────────────────────────────────────

  async begin(
    mode: Mode,
    { writes = false, alone = false, gates = [], runs = NO_RUNS, claim = null, ahead }: BatchPlan = {},
  ): Promise<void> {
    this.#reset(mode, { alone, gates });
    this.#sendBegin(mode, { alone, gates });
    // What it meets makes what is sent behind it fail, in words that do not tell why.
    const locked = this.runs.begin(runs).catch((error: unknown) => {
      this.failure ??= error;
    });
    if (claim !== null) this.keep(this.link.query(LOCK_CLAIM, [claim]));
    const header = this.get<HeaderRow>(this.#header(mode, writes));
    this.foreseen.clear();
    this.busyLines.clear();
    this.cutLines.clear();
    const canForesee = mode === "writing" && this.queues.areKnown;
    const numbers = canForesee && ahead ? ahead() : 0;
    const fetched = numbers > 0 ? this.#fetch("seq", numbers) : undefined;
    const [row, given] = await allAnswered([header, fetched, locked]);
    this.#numbers = given ?? [];
    if (row === undefined) throw new Error("the store's row is missing");
    checkKnown(this.link.schema, row.needs);
    if (row.closed !== null) throw closedError(row.closed, describeSchema(this.link.schema));
    if (row.life === null) throw new NoIncarnation();
    this.#life = row.life;
    this.salt = row.salt;
    this.events.listeners = row.listeners;
    this.topics.latest = row;
    this.hasInbox = row.inbox;
    this.now = row.clock;
    this.#xid = row.xid;
    if (!this.queues.isCurrent(row)) await this.queues.follow(row);
  }

  /** What everybody has who uses queues. */
  get #shared(): string {
    return `pg_advisory_xact_lock_shared(${catalogueLock(this.link.schema)})`;
  }

  #reset(mode: Mode, { alone, gates }: { alone: boolean; gates: readonly number[] }): void {
    this.hint = {};
    this.changed = false;
    this.tangled = false;
    this.copiesChanged = false;
    this.failure = undefined;
    this.swept = false;
    this.idleLanes.clear();
    this.leftInboxEntries = false;
    this.serving.clear();
    this.floors.begin();
    this.runs.forget();
    this.#droppingBefore = new Map(this.dropping);
    this.events.forget();
    this.#isAlone = alone;
    this.#isReading = mode === "reading";
    this.limits.begin(gates);
  }

  #sendBegin(mode: Mode, { alone, gates }: { alone: boolean; gates: readonly number[] }): void {
    this.keep(
      this.link.exec(
        mode === "reading"
          ? "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
          : `${BEGIN}; ${this.#waitFor(gates)}${alone ? this.#lockAlone : `SELECT ${this.#shared}`}`,
      ),
    );
    if (!this.#options.session)
      this.keep(this.link.query(setLocally(settingsFor(this.#options.durability)), []));
  }

  #header(mode: Mode, writes: boolean): string {
    if (mode === "reading") return HEADER_TO_READ;
    return writes ? HEADER_WITH_XID : HEADER;
  }

  /** In one order everywhere, so that no two wait for each other. */
  #waitFor(gates: readonly number[]): string {
    const locks = gates.toSorted((a, b) => a - b).map((queue) => gateLock(this.link.schema, queue));
    return locks.map((lock) => `SELECT pg_advisory_xact_lock(${lock}); `).join("");
  }

  /** It changes nothing, and sees one moment all the while. */
  get isReading(): boolean {
    return this.#isReading;
  }

  /** The transaction's number, where it was asked for when it began. */
  get xid(): string | null {
    return this.#xid ?? null;
  }

  /** Of the server, as it was when the transaction began; null in one that only reads. */
  get life(): string | null {
    return this.#life ?? null;
  }

  /** Before the commit. Answers the transaction's number, by which the server can be asked what became of it. */
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

  /** After a rollback: what is remembered may be of the transaction that never was. */
  forget(): void {
    this.queues.forget();
    this.forgetSent();
    this.events.forget();
    this.counters.forget();
    this.dropping.clear();
    for (const [queue, seq] of this.#droppingBefore) this.dropping.set(queue, seq);
    this.topics.forget();
    this.limits.begin([]);
  }

  /**
   * From here to the commit nobody else's transaction is open that may use a queue. A batch that did not begin so starts again:
   * two that already share the catalogue would wait for each other.
   */
  needAlone(): void {
    if (!this.#isAlone) throw new LocksNeeded({ alone: true });
  }

  /** From here to its end it fails where it would have to wait longer than that for a lock of somebody's. */
  waitNoLongerThan(ms: number): void {
    this.keep(this.link.exec(`SET LOCAL lock_timeout = ${ms}`));
  }

  /** It is, or waits to be. */
  get isAlone(): boolean {
    return this.#isAlone;
  }

  /**
   * All others wait behind it, those whose signs of life are due too: it does not wait for long, from here to its end. A
   * transaction of a caller's may have a row that it needs.
   */
  get #lockAlone(): string {
    return `SET LOCAL lock_timeout = ${ALONE_MS}; SELECT pg_advisory_xact_lock(${catalogueLock(this.link.schema)})`;
  }

  // ── Ids and numbers ─────────────────────────────────────────────────────────────────────────────────────

  id(createdAt: number, seq: number): string {
    return formatTaskId(createdAt, seq, this.salt);
  }

  place(id: string): TaskIdParts | undefined {
    return parseTaskId(id, this.salt);
  }

  /** Numbers that nobody else has or will have; those of a transaction that fails are lost. */
  async numbers(kind: keyof typeof NUMBERS, count: number): Promise<number[]> {
    if (count === 0) return [];
    const ahead = kind === "seq" ? this.#numbers.splice(0, count) : [];
    return ahead.length === count ? ahead : [...ahead, ...(await this.#fetch(kind, count - ahead.length))];
  }

  async #fetch(kind: keyof typeof NUMBERS, count: number): Promise<number[]> {
    return (await this.link.rows(NUMBERS[kind], [count])).map((row) => row[0] as number);
  }

  /** The last number that was given out to a task, or a place. */
  async lastSeq(): Promise<number> {
    return (await this.get<{ n: number }>(LAST_SEQ))!.n;
  }

  // ── Hints ───────────────────────────────────────────────────────────────────────────────────────────────

  hintReady(queue: Queue, count = 1): void {
    const ready = (this.hint.ready ??= {});
    // A queue may be called "constructor".
    ready[queue.name] = (Object.hasOwn(ready, queue.name) ? ready[queue.name]! : 0) + count;
  }
}

const ALONE_MS = 500;

interface HeaderRow extends Version, Subscribing {
  clock: number;
  xid?: string;
  /** Null: the one before has ended, and none has begun. */
  life?: string | null;
  /** How many steps of the schema a process must know. */
  needs: number;
  closed: string | null;
  salt: number;
  listeners: number;
  inbox: boolean;
}
