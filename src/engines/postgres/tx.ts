import type { Reading } from "../../core/clock.ts";
import { advanceTime, type EngineTime, startTime } from "../../core/engine-time.ts";
import type { DibsEvent } from "../../core/events.ts";
import { type Flow, noFlow } from "../../core/flow.ts";
import { type NamedPolicy, type QueuePolicy, resolvePolicy } from "../../core/policy.ts";
import { formatTaskId, parseTaskId, type TaskPlace } from "../../core/task-id.ts";
import { type DepthByState, NO_DEPTH, type TaskState } from "../../core/task.ts";
import { BOUNDS, type Hint } from "../../engine/engine.ts";
import { catalogueLock, eventLock, gateLock } from "./locks.ts";
import { Lowered, type TimeLine, TIMES } from "./floors.ts";
import type { Lane } from "./lanes.ts";
import { LIFE, NoLife } from "./life.ts";
import { BEGIN, type Link, PLANNING, setLocally, type Value } from "./link.ts";
import { Limits } from "./limits.ts";
import { checkKnown } from "./migrations.ts";
import { HAS_NOTES } from "./notes.ts";
import { Overtaken } from "./overtaken.ts";
import { Topics } from "./topics.ts";
import { readDepth, writeDeltas } from "./counters.ts";

export interface Queue {
  id: number;
  name: string;
  /** The fields of the policy that somebody named. */
  named: NamedPolicy;
  policy: QueuePolicy;
  /** The last declaration applied, as JSON. */
  declared: string | null;
  paused: boolean;
  createdAt: number;
  /** It has limits, had some, or was held back: see limits.ts. */
  limited: boolean;
}

export interface TxOptions {
  /** False behind a transaction pooler: settings then last for one transaction. */
  session: boolean;
  durability: "full" | "relaxed";
}

const HEADER_OF = (...also: string[]): string => `
  SELECT needs, salt, revision, epoch, subscribed, unsubscribed, (SELECT count(*)::int4 FROM dibs.listener) AS listeners,
    ${HAS_NOTES} AS inbox, ${also.join(", ")}
  FROM dibs.store WHERE one = 1`;
// The server's clock, and no other. Several processes read it: each transaction has one time.
const CLOCK = `floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 AS clock`;
const INJECTED = `now, awake, boot, elapsed_at, awake_at`;
const OWN_LIFE = `${LIFE} AS life`;
const HEADER_TO_READ = HEADER_OF(CLOCK);
const HEADER = HEADER_OF(CLOCK, OWN_LIFE);
const HEADER_WITH_XID = HEADER_OF(`pg_current_xact_id()::text AS xid`, CLOCK, OWN_LIFE);
const HEADER_OF_INJECTED_TO_READ = HEADER_OF(INJECTED);
const HEADER_OF_INJECTED = `${HEADER_OF(INJECTED, OWN_LIFE)} FOR UPDATE`;
const WRITE_CLOCK = `
  UPDATE dibs.store SET now = $1, awake = $2, boot = $3, elapsed_at = $4, awake_at = $5 WHERE one = 1`;
// By their names: of a statement that asks for all columns the answer must not change while it is prepared.
const QUEUES = `
  SELECT id, name, named, declared, paused, created_at, EXISTS (SELECT 1 FROM dibs.gate WHERE gate.queue = queue.id) AS limited
  FROM dibs.queue`;
const ALL_QUEUES = `${QUEUES} ORDER BY id`;
const QUEUES_SINCE = `${QUEUES} WHERE revision > $1`;
const QUEUE = `${QUEUES} WHERE name = $1`;
const QUEUES_OF = `${QUEUES} WHERE id = ANY ($1::int4[])`;
// Queues change one transaction at a time: whoever changes one holds this row.
const NEXT_REVISION = `UPDATE dibs.store SET revision = revision + 1 WHERE one = 1 RETURNING revision`;
const NEXT_EPOCH = `UPDATE dibs.store SET epoch = epoch + 1 WHERE one = 1`;
const INSERT_QUEUE = `
  INSERT INTO dibs.queue (name, named, paused, created_at, revision) VALUES ($1, '{}', false, $2, $3)
  ON CONFLICT (name) DO NOTHING RETURNING id, name, named, declared, paused, created_at, false AS limited`;
const LOCK = `SELECT pg_advisory_xact_lock($1::int8)`;
const NUMBERS = {
  seq: `SELECT nextval('dibs.seq')::int8 AS n FROM generate_series(1, $1::int4)`,
  fence: `SELECT nextval('dibs.fence')::int8 AS n FROM generate_series(1, $1::int4)`,
  session: `SELECT nextval('dibs.session_id')::int8 AS n FROM generate_series(1, $1::int4)`,
} as const;
const LAST_SEQ = `SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS n FROM dibs.seq`;
// Of a store whose events were counted in its own row the first goes on from there: every batch reads that row, and would
// walk over each version of it.
const LAST_EVENT = `
  SELECT greatest((SELECT max(n) FROM dibs.event), (SELECT event FROM dibs.store WHERE one = 1)) AS n`;
const INSERT_EVENTS = `
  INSERT INTO dibs.event (n, body) SELECT last.n + i, body
  FROM (${LAST_EVENT}) AS last, unnest($1::text[]) WITH ORDINALITY AS each (body, i)`;

const XID = `SELECT pg_current_xact_id_if_assigned()::text AS xid`;

export type Mode = "reading" | "writing";

/**
 * When a claim starts, by the server's clock at this very moment. The batch's own now may be older than the end of
 * the attempt before, which another transaction committed meanwhile.
 */
export const STARTED = (injected: string): string =>
  `coalesce(${injected}::int8, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8)`;

/** What is known of a batch before it begins. */
export interface Foresight {
  /** How many tasks' numbers will certainly be asked for. */
  numbers?: number;
  /** Something will most likely be written. */
  writes?: boolean;
  /** It has to be alone: asked for at once, it cannot end in two that wait for each other to let go. */
  alone?: boolean;
  /** Queues whose gates it will need, and waits for before it has anything that others could wait for. */
  gates?: readonly number[];
  /** Sends what need not wait for the header, along with it (foresee.ts). Not with an injected clock. */
  ahead?: () => void;
}

/** An answer that was asked for before its time, and what it is about. */
export interface Foreseen<What, Row extends unknown[]> {
  what: What;
  answer: Promise<Row[]>;
}

/**
 * What the verbs work in: the open transaction, with the engine's clock, the queues and the counters. What a verb
 * only writes is sent without waiting for the answer; a failure shows at the end, when nothing is committed yet.
 */
export class Tx {
  readonly link: Link;
  /** Where something was put that claims might pass over. */
  readonly lowered = new Lowered(this);
  /** Queues from which something was taken that had been put there. */
  readonly stirred = new Set<string>();
  readonly #options: TxOptions;
  salt = 0;
  time!: EngineTime;
  listeners = 0;
  /** The last number that a subscription got, and how often some were removed: see topics.ts. */
  subscribed = 0;
  unsubscribed = 0;
  /** Who gets what is published. */
  readonly topics = new Topics();
  /** Others' transactions have left something to be taken up: inbox.ts. */
  hasInbox = false;
  hint: Hint = {};
  changed = false;
  /** Something was sent that may yet meet another transaction's lock. */
  tangled = false;
  /** What is remembered of the queues would be untrue, if this transaction failed. */
  queuesChanged = false;
  /** The first thing that went wrong with what was sent. */
  failure: unknown;
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
  leftNotes = false;
  /** Live workers by queue, while nobody joins, leaves or beats: see line.ts. */
  readonly serving = new Map<string, string[]>();
  /** What was sent along with the header, by the operation that will ask for it. */
  readonly foreseen = new Map<object, Foreseen<unknown, unknown[]>>();
  /** How a task is cancelled that has not ended; set by the store, for runs and tasks end each other. */
  cancelPending: (seq: number) => Promise<unknown> = async () => {};
  /** Gives a place to every task that others' transactions have brought to these queues by now; set by the store, too. */
  takeUpAll: (queues: readonly number[]) => Promise<void> = async () => {};
  /** What is known of groups and gates, and to be written. */
  readonly limits = new Limits(this);
  /** How far groups were looked at that may remember nothing any more: see care.ts. */
  prunedTo = { queue: 0, key: "" };
  /** The queues that are being dropped, and how far: see queues.ts. */
  readonly dropping = new Map<number, number>();
  #injected = false;
  #stored: HeaderRow | undefined;
  #xid: string | undefined;
  #life: string | undefined;
  #sent: Promise<unknown>[] = [];
  /** Numbers for tasks, fetched ahead. */
  #numbers: number[] = [];
  #events: DibsEvent[] = [];
  #revision = -1;
  #epoch = -1;
  #leastPayload: number | undefined;
  #hasLimits: boolean | undefined;
  #isAlone = false;
  #isReading = false;
  readonly #byName = new Map<string, Queue>();
  readonly #byId = new Map<number, Queue>();
  readonly #depths = new Map<Queue, DepthByState>();
  readonly #flows = new Map<Queue, Flow>();

  constructor(link: Link, options: TxOptions) {
    this.link = link;
    this.#options = options;
  }

  // ── Statements ──────────────────────────────────────────────────────────────────────────────────────────

  async all<Row>(sql: string, ...values: Value[]): Promise<Row[]> {
    return (await this.link.query(sql, values)).rows as Row[];
  }

  async get<Row>(sql: string, ...values: Value[]): Promise<Row | undefined> {
    return (await this.link.query(sql, values)).rows[0] as Row | undefined;
  }

  /** Rows as arrays, which are read faster than objects; of a statement that may write. */
  async rows<Row extends unknown[]>(sql: string, ...values: Value[]): Promise<Row[]> {
    const rows = (await this.link.rows(sql, values)) as Row[];
    return rows;
  }

  /** The same, for an operation whose turn has not come yet: it finds the answer in `foreseen`. */
  foresee(op: object, what: unknown, sql: string, ...values: Value[]): void {
    const answer = this.link.rows(sql, values);
    this.#keep(answer);
    this.foreseen.set(op, { what, answer });
  }

  /** What the queues are known by; in a statement that goes out with the header it has to be checked there. */
  get known(): { revision: number; epoch: number } {
    return { revision: this.#revision, epoch: this.#epoch };
  }

  /** Writes; answers how many rows. */
  async run(sql: string, ...values: Value[]): Promise<number> {
    const { rowCount } = await this.link.query(sql, values);
    if (rowCount) this.changed = true;
    return rowCount ?? 0;
  }

  /** Writes, and returns the rows. */
  async take<Row>(sql: string, ...values: Value[]): Promise<Row[]> {
    const rows = await this.all<Row>(sql, ...values);
    if (rows.length > 0) this.changed = true;
    return rows;
  }

  /** Writes, and does not wait: for what certainly finds its row, or need not know. */
  send(sql: string, ...values: Value[]): void {
    this.tangled = true;
    this.put(sql, ...values);
  }

  /** The same, for rows that nobody else can know of: it cannot meet others' locks. */
  put(sql: string, ...values: Value[]): void {
    this.changed = true;
    this.#keep(this.link.query(sql, values));
  }

  /** Writes, and does not wait: where it finds no row, others were faster, and the transaction fails at its end. */
  sendToFind(sql: string, ...values: Value[]): void {
    this.tangled = true;
    this.changed = true;
    this.#keep(this.#find(sql, values));
  }

  async #find(sql: string, values: Value[]): Promise<void> {
    const { rowCount } = await this.link.query(sql, values);
    if (rowCount === 0) throw new Overtaken();
  }

  #keep(answer: Promise<unknown>): void {
    // Looked at when the transaction ends; until then it must not count as unhandled.
    answer.catch((error: unknown) => (this.failure ??= error));
    this.#sent.push(answer);
  }

  /** Until everything that was sent has been carried out. */
  async settled(): Promise<void> {
    const sent = this.#sent;
    this.#sent = [];
    await Promise.all(sent);
  }

  // ── Beginning and end ───────────────────────────────────────────────────────────────────────────────────

  async begin(
    mode: Mode,
    reading: Reading | null,
    { numbers = 0, writes = false, alone = false, gates = [], ahead }: Foresight = {},
  ): Promise<void> {
    this.hint = {};
    this.changed = false;
    this.tangled = false;
    this.queuesChanged = false;
    this.failure = undefined;
    this.swept = false;
    this.idleLanes.clear();
    this.leftNotes = false;
    this.serving.clear();
    this.lowered.clear();
    this.stirred.clear();
    this.#events = [];
    this.#injected = reading !== null;
    this.#isAlone = alone;
    this.#isReading = mode === "reading";
    this.limits.begin(gates);
    this.#keep(
      this.link.exec(
        mode === "reading"
          ? "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
          : `${BEGIN}; ${this.#waitFor(gates)}${alone ? this.#lockAlone : `SELECT pg_advisory_xact_lock_shared(${catalogueLock(this.link.schema)})`}`,
      ),
    );
    if (!this.#options.session)
      this.#keep(this.link.query(setLocally(settingsFor(this.#options.durability)), []));
    const header = this.get<HeaderRow>(this.#header(mode, writes));
    const fetched = numbers > 0 ? this.#fetch("seq", numbers) : undefined;
    this.foreseen.clear();
    if (mode === "writing" && !this.#injected && this.knowsQueues) ahead?.();
    const [row, given] = await Promise.all([header, fetched]);
    this.#numbers = given ?? [];
    if (row === undefined) throw new Error("the store's row is missing");
    checkKnown(this.link.schema, row.needs);
    if (row.life === null) throw new NoLife();
    this.#life = row.life;
    this.salt = row.salt;
    this.listeners = row.listeners;
    this.subscribed = row.subscribed;
    this.unsubscribed = row.unsubscribed;
    this.hasInbox = row.inbox;
    if (reading === null) this.#followServer(row);
    else this.#advance(row, reading);
    this.#stored = row;
    this.#xid = row.xid;
    if (row.epoch !== this.#epoch || row.revision !== this.#revision) await this.#readQueues(row);
  }

  #header(mode: Mode, writes: boolean): string {
    if (mode === "reading") return this.#injected ? HEADER_OF_INJECTED_TO_READ : HEADER_TO_READ;
    if (this.#injected) return HEADER_OF_INJECTED;
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
    this.flush();
    this.flushEvents();
    if (this.changed && this.#injected) {
      const { now, awake, boot, elapsedAt, awakeAt } = this.time;
      this.put(WRITE_CLOCK, now, awake, boot, elapsedAt, awakeAt);
      this.#stored = { ...this.#stored!, now, awake, boot, elapsed_at: elapsedAt, awake_at: awakeAt };
    }
    if (!this.changed || this.#xid !== undefined) return this.#xid ?? null;
    return (await this.get<{ xid: string | null }>(XID))!.xid;
  }

  /** Sends the commit; resolves when it, and all that was sent before, has been carried out. */
  commit(): Promise<unknown> {
    const sent = this.#sent;
    this.#sent = [];
    return Promise.all([...sent, this.link.exec("COMMIT")]);
  }

  /** After a rollback: what is remembered may be of the transaction that never was. */
  forget(): void {
    this.#revision = -1;
    this.#epoch = -1;
    this.#stored = undefined;
    this.#sent = [];
    this.#events = [];
    this.#depths.clear();
    this.#flows.clear();
    this.dropping.clear();
    this.topics.forget();
    this.limits.begin([]);
  }

  /** One clock for both: a server does not sleep. */
  #followServer({ clock }: HeaderRow): void {
    const now = clock!;
    this.time = { now, awake: now, boot: "server", elapsedAt: now, awakeAt: now };
  }

  /**
   * An injected clock is kept in the store, as a file keeps its own. Readings of this process that were not written
   * down count too, unless another process has moved the clock since: then the later of both holds.
   */
  #advance(row: HeaderRow, reading: Reading): void {
    const stored = this.#stored;
    const seen = this.time as EngineTime | undefined;
    if (row.now == null) {
      this.time = seen ? advanceTime(seen, reading) : startTime(reading);
      return;
    }
    if (seen && stored?.now === row.now && stored.elapsed_at === row.elapsed_at && stored.boot === row.boot) {
      this.time = advanceTime(seen, reading);
      return;
    }
    const time = advanceTime(
      {
        now: row.now,
        awake: row.awake!,
        boot: row.boot!,
        elapsedAt: row.elapsed_at!,
        awakeAt: row.awake_at!,
      },
      reading,
    );
    if (seen) {
      time.now = Math.max(time.now, seen.now);
      time.awake = Math.max(time.awake, seen.awake);
    }
    this.time = time;
  }

  /** Whether an injected clock's machine has booted since the last commit: that has to be written down. */
  get rebooted(): boolean {
    return this.#injected && this.#stored!.boot !== this.time.boot;
  }

  /** For STARTED: an injected clock's now. */
  get startedAt(): number | null {
    return this.#injected ? this.now : null;
  }

  /** The same of its waking hours. */
  get startedAwake(): number | null {
    return this.#injected ? this.awake : null;
  }

  get now(): number {
    return this.time.now;
  }

  get awake(): number {
    return this.time.awake;
  }

  /** From here to the commit nobody else's transaction is open that may use a queue. */
  async alone(): Promise<void> {
    if (this.#isAlone) return;
    this.#isAlone = true;
    await this.link.exec(this.#lockAlone);
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

  place(id: string): TaskPlace | undefined {
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

  // ── Queues ──────────────────────────────────────────────────────────────────────────────────────────────

  /** They were read before, on this connection. */
  get knowsQueues(): boolean {
    return this.#epoch >= 0;
  }

  get queues(): IterableIterator<Queue> {
    return this.#byId.values();
  }

  queueNamed(name: string): Queue | undefined {
    return this.#byName.get(name);
  }

  queueOf(id: number): Queue {
    return this.#byId.get(id)!;
  }

  /** Undefined where it was dropped meanwhile. */
  queueIfAny(id: number): Queue | undefined {
    return this.#byId.get(id);
  }

  /** Makes it if it is new. */
  async queue(name: string): Promise<Queue> {
    return this.#byName.get(name) ?? this.#makeQueue(name);
  }

  async #makeQueue(name: string): Promise<Queue> {
    const revision = await this.nextRevision();
    const [made] = await this.take<QueueRow>(INSERT_QUEUE, name, this.now, revision);
    if (made) {
      this.announce({ type: "queue.created", at: this.now, queue: name });
      return this.#learn(made);
    }
    return (await this.freshQueue(name))!;
  }

  /** As it is now, and not as it was when it was last read. Whoever is to change it asks for a revision first. */
  async freshQueue(name: string): Promise<Queue | undefined> {
    const row = await this.get<QueueRow>(QUEUE, name);
    return row && this.#learn(row);
  }

  /** Those that are newer than this transaction's sight of the queues. What is not there then was dropped. */
  async learnQueues(ids: readonly number[]): Promise<void> {
    const unknown = ids.filter((id) => !this.#byId.has(id));
    if (unknown.length === 0) return;
    for (const row of await this.all<QueueRow>(QUEUES_OF, [...new Set(unknown)])) this.#learn(row);
  }

  /** To be written into the queue that changes. Until the commit no other transaction gets one. */
  async nextRevision(): Promise<number> {
    this.queuesChanged = true;
    const [row] = await this.take<{ revision: number }>(NEXT_REVISION);
    return row!.revision;
  }

  forgetQueue(queue: Queue): void {
    this.#hasLimits = undefined;
    this.#byName.delete(queue.name);
    this.#byId.delete(queue.id);
    this.#depths.delete(queue);
    this.#flows.delete(queue);
    this.queuesChanged = true;
    this.send(NEXT_EPOCH);
  }

  /** No queue takes less than this. */
  get leastPayload(): number {
    // One by one: so many arguments as there may be queues would overflow the stack.
    this.#leastPayload ??= [...this.queues].reduce(
      (least, { policy }) => Math.min(least, policy.maxPayload),
      Number.POSITIVE_INFINITY,
    );
    return this.#leastPayload;
  }

  policy(name: string): QueuePolicy {
    return this.#byName.get(name)?.policy ?? resolvePolicy({});
  }

  async #readQueues({ revision, epoch }: HeaderRow): Promise<void> {
    const anew = epoch !== this.#epoch;
    const rows = anew
      ? await this.all<QueueRow>(ALL_QUEUES)
      : await this.all<QueueRow>(QUEUES_SINCE, this.#revision);
    if (anew) {
      this.#byName.clear();
      this.#byId.clear();
    }
    for (const row of rows) this.#learn(row);
    this.#revision = revision;
    this.#epoch = epoch;
  }

  /** Some queue has limits, had some, or was held back. */
  get hasLimits(): boolean {
    this.#hasLimits ??= [...this.queues].some(({ limited }) => limited);
    return this.#hasLimits;
  }

  noteLimited(queue: Queue): void {
    queue.limited = true;
    this.#hasLimits = true;
  }

  #learn(row: QueueRow): Queue {
    this.#leastPayload = undefined;
    this.#hasLimits = undefined;
    const named = JSON.parse(row.named) as NamedPolicy;
    const known = this.#byId.get(row.id);
    const fields = {
      id: row.id,
      name: row.name,
      named,
      policy: resolvePolicy(named),
      declared: row.declared,
      paused: row.paused,
      createdAt: row.created_at,
      limited: row.limited,
    };
    const queue: Queue = known ? Object.assign(known, fields) : fields;
    this.#byName.set(queue.name, queue);
    this.#byId.set(queue.id, queue);
    return queue;
  }

  // ── Counters, hints and events ──────────────────────────────────────────────────────────────────────────

  count(queue: Queue, state: TaskState, by: number): void {
    let depth = this.#depths.get(queue);
    if (!depth) {
      depth = { ...NO_DEPTH };
      this.#depths.set(queue, depth);
    }
    depth[state] += by;
  }

  flow(queue: Queue): Flow {
    let flow = this.#flows.get(queue);
    if (!flow) {
      flow = noFlow();
      this.#flows.set(queue, flow);
    }
    return flow;
  }

  async depth(queue: Queue): Promise<DepthByState> {
    this.flush();
    return readDepth(this, queue.id);
  }

  /** Brings the counters of this transaction so far into their table. */
  flush(): void {
    const queues = new Set([...this.#depths.keys(), ...this.#flows.keys()]);
    if (queues.size === 0) return;
    const slot = Math.floor(this.now / BOUNDS.rateSlot);
    writeDeltas(
      this,
      slot,
      [...queues].map((queue) => ({
        queue: queue.id,
        depth: this.#depths.get(queue) ?? NO_DEPTH,
        flow: this.#flows.get(queue) ?? noFlow(),
      })),
    );
    this.#depths.clear();
    this.#flows.clear();
  }

  hintReady(queue: Queue, count = 1): void {
    const ready = (this.hint.ready ??= {});
    // A queue may be called "constructor".
    ready[queue.name] = (Object.hasOwn(ready, queue.name) ? ready[queue.name]! : 0) + count;
  }

  /** Something comes to stand at a place where claims may no longer look: one that it had before, or of a higher priority. */
  lower(queue: Queue, rank: number, pos: number): void {
    this.lowered.note(queue.id, { rank, pos });
  }

  /** The same of what is ordered by time. */
  lowerTime(line: TimeLine, at: number): void {
    this.lowered.note(TIMES[line], { rank: 0, pos: at });
  }

  /** Somebody has it now: if it came to its place out of turn, the floor was lowered for it and may be raised again. */
  tookFromLine(queue: Queue, task: { rank: number; failures: number; groupKey: string | null }): void {
    if (task.failures > 0 || task.rank < 0 || task.groupKey !== null) this.stirred.add(queue.name);
  }

  /** For which share of a lease a sign of life counts as fresh. An injected clock may stand still, and is kept to the millisecond. */
  get freshness(): number {
    return this.#injected ? 0 : FRESH;
  }

  /** Kept only while somebody listens. */
  announce(event: DibsEvent): void {
    if (this.listeners > 0) this.#events.push(event);
  }

  /**
   * Numbers of events are given out under a lock that lasts until the commit, late in the transaction: so whoever has
   * read up to a number has missed none before it.
   */
  flushEvents(): void {
    const events = this.#events;
    if (events.length === 0) return;
    this.#events = [];
    this.send(LOCK, eventLock(this.link.schema));
    this.send(
      INSERT_EVENTS,
      events.map((event) => JSON.stringify(event)),
    );
  }

  async lastEvent(): Promise<number> {
    this.flushEvents();
    return (await this.get<{ n: number }>(LAST_EVENT))!.n;
  }
}

/** Beats come every third of a lease. */
const FRESH = 0.5;

const ALONE_MS = 500;

/** A client that hangs in the midst of a transaction must not hold others up for long: not for as long as a lease. */
const IDLE_MS = 10_000;

export function settingsFor(durability: TxOptions["durability"]): Record<string, string> {
  return {
    ...PLANNING,
    idle_in_transaction_session_timeout: `${IDLE_MS}`,
    // A server may be set to acknowledge before the disk does; what `add` returned must survive a power cut.
    synchronous_commit: durability === "full" ? "on" : "off",
  };
}

interface HeaderRow {
  xid?: string;
  /** Null: the one before has ended, and none has begun. */
  life?: string | null;
  /** How many steps of the schema a process must know. */
  needs: number;
  salt: number;
  revision: number;
  epoch: number;
  subscribed: number;
  unsubscribed: number;
  listeners: number;
  inbox: boolean;
  clock?: number;
  now?: number | null;
  awake?: number | null;
  boot?: string | null;
  elapsed_at?: number | null;
  awake_at?: number | null;
}

interface QueueRow {
  id: number;
  name: string;
  named: string;
  declared: string | null;
  paused: boolean;
  created_at: number;
  limited: boolean;
}
