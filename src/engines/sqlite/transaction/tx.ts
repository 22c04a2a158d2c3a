import { type Flow, noFlow } from "../../../core/flow.ts";
import type { Reading } from "../../../core/clock.ts";
import { advanceTime, type EngineTime } from "../../../core/engine-time.ts";
import type { DibsEvent } from "../../../core/events.ts";
import { isGated, type NamedPolicy, type QueuePolicy, resolvePolicy } from "../../../core/policy.ts";
import { isVerificationQueue } from "../../../core/verification.ts";
import { formatTaskId, parseTaskId, type TaskIdParts } from "../../../core/task-id.ts";
import { type DepthByState, NO_DEPTH, type TaskState } from "../../../core/task.ts";
import { BOUNDS, type Hint } from "../../../engine/engine.ts";
import { Events } from "./events.ts";
import { AddBuffer } from "./add-buffer.ts";
import { type RunRow, StageLists } from "../flows/runs.ts";
import { Statements } from "../statements/statements.ts";
import { Topics } from "./topics.ts";

/**
 * The transaction that every verb gets: the clock, the numbers to give out, the queues, counters, hints and events.
 * SqliteStore (batch/store.ts) has one.
 */

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
  lanes: Lanes;
  /** It has a row in `gate`. */
  gate: boolean;
  /** Not everything that is ready may start, or more comes up when it does: a claim has to look closer. */
  limited: boolean;
}

/** A worker, by the number of its session. */
export interface Server {
  id: number;
  worker: string;
}

/** How much the lanes of a queue say. */
export type Lanes = typeof HEAD_ONLY | typeof HEADLESS | typeof COUNTED;
/** A lane is a head, and goes with it: groups are an order and no more. */
export const HEAD_ONLY = 0;
/** Some may have no head, because somebody's limit was met. */
export const HEADLESS = 1;
/** Groups are more than an order, or were: how many hold each lane is counted, and who of them stands in line. */
export const COUNTED = 2;

const READ_STORE = `SELECT * FROM store`;
const WRITE_STORE = `
  UPDATE store SET now = ?, awake = ?, boot = ?, elapsed_at = ?, awake_at = ?,
    seq = ?, fence = ?, session = ?, event = ?, revision = ?, listeners = ?`;
const READ_QUEUES = `SELECT * FROM queue ORDER BY id`;
const INSERT_QUEUE = `INSERT INTO queue (name, named, paused, created_at) VALUES (?, '{}', 0, ?) RETURNING id`;
const UPDATE_QUEUE = `UPDATE queue SET named = ?, declared = ?, paused = ?, lanes = ?, gate = ? WHERE id = ?`;
const INSERT_DEPTH = `INSERT INTO depth (queue) VALUES (?)`;
const ADD_DEPTH = `
  UPDATE depth SET ready = ready + ?, waiting = waiting + ?, scheduled = scheduled + ?, claimed = claimed + ?,
    parked = parked + ?, verifying = verifying + ?, done = done + ?, dead = dead + ?, cancelled = cancelled + ?, expired = expired + ?
  WHERE queue = ?`;
const READ_DEPTH = `
  SELECT ready, waiting, scheduled, claimed, parked, verifying, done, dead, cancelled, expired FROM depth WHERE queue = ?`;
const READ_CLAIMED = `SELECT claimed FROM depth WHERE queue = ?`;
const ADD_FLOW = `
  INSERT INTO flow (queue, slot, added, claimed, done, failed, wait_ms, service_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (queue, slot) DO UPDATE SET
    added = added + excluded.added, claimed = claimed + excluded.claimed, done = done + excluded.done,
    failed = failed + excluded.failed, wait_ms = wait_ms + excluded.wait_ms,
    service_ms = service_ms + excluded.service_ms`;
const LAST_RUN = `SELECT max(id) AS id FROM run`;

/**
 * What the verbs work in: the open transaction, with the engine's clock, the numbers to give out, the queues
 * and the counters. They are read when it begins and written once when it ends, and only if something changed:
 * a commit wakes every other process.
 */
export class Tx extends Statements {
  time!: EngineTime;
  salt = 0;
  seq = 0;
  fence = 0;
  session = 0;
  event = 0;
  listeners = 0;
  /** The last number that a subscription got, and how often some were removed: see topics.ts. */
  subscribed = 0;
  unsubscribed = 0;
  /** Why nobody may use the store; null: everybody may. */
  closed: string | null = null;
  hint: Hint = {};
  /** Notices were left for sessions, and nobody has asked which. */
  noticed = false;
  /** What is told to those who listen, and not written yet. */
  readonly events = new Events(this);
  /** Tasks that were added and are not written yet. */
  readonly newcomers = new AddBuffer(this);
  /** Who gets what is published. */
  readonly topics = new Topics();
  /** Nothing that time brings is left to be done at this moment: see sweep.ts. */
  swept = false;
  /** Live workers by queue, while nobody joins, leaves or beats: see ready.ts. */
  readonly serving = new Map<string, Server[]>();
  /** What the lists of stages say. */
  readonly stages = new StageLists();
  /** How a task is cancelled that has not ended; set by the store, for runs and tasks end each other. */
  cancelPending: (seq: number) => void = () => {};
  /** Runs that have just lost a task: see runs.ts. */
  readonly lostRuns: RunRow[] = [];
  /** The queues that are being dropped, and how far: see queues.ts. */
  readonly dropping = new Map<number, number>();
  /** How far the lanes of a queue were looked through for what nobody needs: see prune-lanes.ts. */
  readonly prunedLanes = new Map<number, string>();
  #stored: StoreRow | undefined;
  #revision = -1;
  #traits: Traits | undefined;
  #hasRuns: boolean | undefined;
  readonly #byName = new Map<string, Queue>();
  readonly #byId = new Map<number, Queue>();
  readonly #depths = new Map<Queue, DepthByState>();
  readonly #flows = new Map<Queue, Flow>();

  // ── Beginning and end ───────────────────────────────────────────────────────────────────────────────────

  begin(reading: Reading): void {
    const row = this.get<StoreRow>(READ_STORE)!;
    this.#advance(row, reading);
    this.salt = row.salt;
    this.seq = row.seq;
    this.fence = row.fence;
    this.session = row.session;
    this.event = row.event;
    this.listeners = row.listeners;
    this.subscribed = row.subscribed;
    this.unsubscribed = row.unsubscribed;
    this.closed = row.closed === 1 ? row.transfer : null;
    if (row.revision !== this.#revision) this.#readQueues(row.revision);
    this.#stored = row;
    this.hint = {};
    this.changed = false;
    this.swept = false;
    this.#hasRuns = undefined;
    this.serving.clear();
  }

  /** Before the commit. */
  finish(): void {
    this.newcomers.write();
    this.events.write();
    this.flush();
    if (!this.changed) return;
    const { now, awake, boot, elapsedAt, awakeAt } = this.time;
    const row: StoreRow = {
      ...this.#stored!,
      now,
      awake,
      boot,
      elapsed_at: elapsedAt,
      awake_at: awakeAt,
      seq: this.seq,
      fence: this.fence,
      session: this.session,
      event: this.event,
      revision: this.#revision,
      listeners: this.listeners,
    };
    this.run(
      WRITE_STORE,
      now,
      awake,
      boot,
      elapsedAt,
      awakeAt,
      row.seq,
      row.fence,
      row.session,
      row.event,
      row.revision,
      row.listeners,
    );
    this.#stored = row;
  }

  /** Some tasks may be of runs; where there are none, nobody need ask. */
  get hasRuns(): boolean {
    this.#hasRuns ??= this.get<{ id: number | null }>(LAST_RUN)!.id !== null;
    return this.#hasRuns;
  }

  set hasRuns(has: boolean) {
    this.#hasRuns = has;
  }

  /** After a rollback: what is remembered may be of the transaction that never was. */
  forget(): void {
    this.#revision = -1;
    this.#stored = undefined;
    this.#depths.clear();
    this.#flows.clear();
    this.dropping.clear();
    this.lostRuns.length = 0;
    this.newcomers.forget();
    this.events.forget();
    this.topics.forget();
  }

  /**
   * Readings of this process that were not written down count too, unless another process has moved the clock
   * since: then its row is advanced, and the later of both holds.
   */
  #advance(row: StoreRow, reading: Reading): void {
    const stored = this.#stored;
    if (
      stored &&
      stored.now === row.now &&
      stored.elapsed_at === row.elapsed_at &&
      stored.boot === row.boot
    ) {
      this.time = advanceTime(this.time, reading);
      return;
    }
    const time = advanceTime(
      { now: row.now, awake: row.awake, boot: row.boot, elapsedAt: row.elapsed_at, awakeAt: row.awake_at },
      reading,
    );
    const seen = this.time as EngineTime | undefined;
    if (seen) {
      time.now = Math.max(time.now, seen.now);
      time.awake = Math.max(time.awake, seen.awake);
    }
    this.time = time;
  }

  /**
   * The machine has booted since the last commit. Until the new boot is written down, every process that opens
   * the store counts its time from nothing: leases would not end, and after a step of the calendar nothing would
   * become due.
   */
  get rebooted(): boolean {
    return this.#stored!.boot !== this.time.boot;
  }

  get now(): number {
    return this.time.now;
  }

  get awake(): number {
    return this.time.awake;
  }

  // ── Ids ─────────────────────────────────────────────────────────────────────────────────────────────────

  id(createdAt: number, seq: number): string {
    return formatTaskId(createdAt, seq, this.salt);
  }

  place(id: string): TaskIdParts | undefined {
    return parseTaskId(id, this.salt);
  }

  // ── Queues ──────────────────────────────────────────────────────────────────────────────────────────────

  get queues(): IterableIterator<Queue> {
    return this.#byId.values();
  }

  queueNamed(name: string): Queue | undefined {
    return this.#byName.get(name);
  }

  queueOf(id: number): Queue {
    return this.#byId.get(id)!;
  }

  /** Makes it if it is new. */
  queue(name: string): Queue {
    return this.#byName.get(name) ?? this.#makeQueue(name);
  }

  #makeQueue(name: string): Queue {
    const { id } = this.take<{ id: number }>(INSERT_QUEUE, name, this.now)!;
    this.run(INSERT_DEPTH, id);
    const queue: Queue = {
      id,
      name,
      named: {},
      policy: resolvePolicy({}),
      declared: null,
      paused: false,
      createdAt: this.now,
      lanes: HEAD_ONLY,
      gate: false,
      limited: false,
    };
    this.#byName.set(name, queue);
    this.#byId.set(id, queue);
    this.queuesChanged();
    this.announce({ type: "queue.created", at: this.now, queue: name });
    return queue;
  }

  /** What is said of it has changed. */
  storeQueue(queue: Queue): void {
    queue.limited = isLimited(queue);
    this.run(
      UPDATE_QUEUE,
      JSON.stringify(queue.named),
      queue.declared,
      queue.paused ? 1 : 0,
      queue.lanes,
      queue.gate ? 1 : 0,
      queue.id,
    );
    this.queuesChanged();
  }

  forgetQueue(queue: Queue): void {
    this.#byName.delete(queue.name);
    this.#byId.delete(queue.id);
    this.#depths.delete(queue);
    this.#flows.delete(queue);
    this.queuesChanged();
  }

  /** The copies that others keep are out of date. */
  queuesChanged(): void {
    this.#revision++;
    this.#traits = undefined;
  }

  policy(name: string): QueuePolicy {
    return this.#byName.get(name)?.policy ?? resolvePolicy({});
  }

  /** What is true of all queues, or of some. */
  get traits(): Traits {
    this.#traits ??= traitsOf([...this.queues]);
    return this.#traits;
  }

  #readQueues(revision: number): void {
    this.#traits = undefined;
    this.#byName.clear();
    this.#byId.clear();
    for (const row of this.all<QueueRow>(READ_QUEUES)) {
      const named = JSON.parse(row.named) as NamedPolicy;
      const queue: Queue = {
        id: row.id,
        name: row.name,
        named,
        policy: resolvePolicy(named),
        declared: row.declared,
        paused: row.paused === 1,
        createdAt: row.created_at,
        lanes: row.lanes,
        gate: row.gate === 1,
        limited: false,
      };
      queue.limited = isLimited(queue);
      this.#byName.set(queue.name, queue);
      this.#byId.set(queue.id, queue);
    }
    this.#revision = revision;
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

  depth(queue: Queue): DepthByState {
    this.flush();
    return this.get<DepthByState>(READ_DEPTH, queue.id)!;
  }

  /** How many of it are claimed now. */
  claimedOf(queue: Queue): number {
    const { claimed } = this.get<{ claimed: number }>(READ_CLAIMED, queue.id)!;
    return claimed + (this.#depths.get(queue)?.claimed ?? 0);
  }

  /** Brings the counters of this transaction so far into their tables. */
  flush(): void {
    for (const [queue, d] of this.#depths) {
      this.run(
        ADD_DEPTH,
        d.ready,
        d.waiting,
        d.scheduled,
        d.claimed,
        d.parked,
        d.verifying,
        d.done,
        d.dead,
        d.cancelled,
        d.expired,
        queue.id,
      );
    }
    this.#depths.clear();
    const slot = Math.floor(this.now / BOUNDS.rateSlot);
    for (const [queue, f] of this.#flows) {
      this.run(ADD_FLOW, queue.id, slot, f.added, f.claimed, f.done, f.failed, f.waitMs, f.serviceMs);
    }
    this.#flows.clear();
  }

  hintReady(queue: Queue, count = 1): void {
    const ready = (this.hint.ready ??= {});
    // A queue may be called "constructor".
    ready[queue.name] = (Object.hasOwn(ready, queue.name) ? ready[queue.name]! : 0) + count;
  }

  /** Something is due at `at` that was not before. */
  hintDue(at: number): void {
    this.hint.due = Math.min(this.hint.due ?? Number.POSITIVE_INFINITY, at - this.now);
  }

  /** Written only while somebody listens. */
  announce(event: DibsEvent): void {
    if (this.listeners > 0) this.events.announce(event);
  }
}

export interface Traits {
  /** No queue takes less than this. */
  leastPayload: number;
  /** Some successes are more than that, or less: who settles many at once has to look which. */
  hasVerified: boolean;
  /** Some lanes or gates may open by themselves: where there are none, nobody need ask. */
  hasLimits: boolean;
  /** Some groups take turns: the order in which tasks end tells the places of others. */
  hasTurns: boolean;
}

function traitsOf(queues: readonly Queue[]): Traits {
  return {
    // One by one: so many arguments as there may be queues would overflow the stack.
    leastPayload: queues.reduce(
      (least, { policy }) => Math.min(least, policy.maxPayload),
      Number.POSITIVE_INFINITY,
    ),
    hasVerified: queues.some(isVerified),
    hasLimits: queues.some(({ limited, lanes }) => limited || lanes !== HEAD_ONLY),
    hasTurns: queues.some(({ policy }) => policy.groups.fair),
  };
}

function isLimited({ lanes, gate, policy }: Queue): boolean {
  return lanes === COUNTED || gate || isGated(policy);
}

/** A success of it waits for a verdict, or is one. */
export function isVerified({ name, policy }: Queue): boolean {
  return policy.verified || isVerificationQueue(name);
}

interface StoreRow {
  one: 1;
  salt: number;
  now: number;
  awake: number;
  boot: string;
  elapsed_at: number;
  awake_at: number;
  seq: number;
  fence: number;
  session: number;
  event: number;
  revision: number;
  listeners: number;
  subscribed: number;
  unsubscribed: number;
  transfer: string | null;
  closed: number;
}

interface QueueRow {
  id: number;
  name: string;
  named: string;
  declared: string | null;
  paused: number;
  created_at: number;
  lanes: Lanes;
  gate: number;
}
