import type { Reading } from "../../../core/time/clock.ts";
import { advanceTime, type EngineTime } from "../../../core/time/engine-time.ts";
import type { DibsEvent } from "../../../core/event/events.ts";
import { formatTaskId, parseTaskId, type TaskIdParts } from "../../../core/task/task-id.ts";
import { BatchState } from "./batch-state.ts";
import { Counters } from "./counters.ts";
import { Events } from "./events.ts";
import { AddBuffer } from "./add-buffer.ts";
import { StageLists } from "../flows/runs.ts";
import { Statements } from "../statements/statements.ts";
import { QueueCache } from "./queue-cache.ts";
import { Topics } from "./topics.ts";

/**
 * The transaction that every verb gets: the clock, the numbers to give out, and ids. What the verbs of a batch share
 * besides is in `batch`. SqliteStore (batch/store.ts) has one Tx, which begins again for each batch.
 */

const READ_STORE = `SELECT * FROM store`;
const WRITE_STORE = `
  UPDATE store SET now = ?, awake = ?, boot = ?, elapsed_at = ?, awake_at = ?,
    seq = ?, fence = ?, session = ?, event = ?, revision = ?, listeners = ?`;
const LAST_RUN = `SELECT max(id) AS id FROM run`;
const LAST_CHILD = `SELECT max(task) AS task FROM child`;

/**
 * Clock and numbers are read when a transaction begins, and written when it ends, if something changed: a commit wakes
 * every other process.
 */
export class Tx extends Statements {
  time!: EngineTime;
  salt = 0;
  seq = 0;
  fence = 0;
  session = 0;
  event = 0;
  listeners = 0;
  /** The id of the last subscription, and how often subscriptions were removed: see topics.ts. */
  subscribed = 0;
  unsubscribed = 0;
  /** Why the store cannot be used; null: it can. */
  closed: string | null = null;
  batch = new BatchState(0);
  readonly queues = new QueueCache(this);
  readonly counters = new Counters(this);
  /** Events that are not written yet. */
  readonly events = new Events(this);
  /** Added tasks that are not written yet. */
  readonly addBuffer = new AddBuffer(this);
  /** The subscriptions. */
  readonly topics = new Topics();
  /** The lists of stages. */
  readonly stages = new StageLists();
  /** How far the drops of queues have come: see queues.ts. */
  readonly dropping = new Map<number, number>();
  /** How far pruning of a queue's lanes has come: see prune-lanes.ts. */
  readonly prunedLanes = new Map<number, string>();
  #stored: StoreRow | undefined;
  #hasRuns: boolean | undefined;
  #hasChildren: boolean | undefined;
  #hasNotices = false;

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
    this.queues.follow(row.revision);
    this.#stored = row;
    this.batch = new BatchState(this.now);
    this.changed = false;
    this.#hasRuns = undefined;
    this.#hasChildren = undefined;
  }

  /** Before the commit. */
  finish(): void {
    this.addBuffer.write();
    this.events.write();
    this.counters.flush();
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
      revision: this.queues.revision,
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

  /** Some tasks may be part of runs. Most stores have none, and skip the lookups. */
  get hasRuns(): boolean {
    this.#hasRuns ??= this.get<{ id: number | null }>(LAST_RUN)!.id !== null;
    return this.#hasRuns;
  }

  noteRun(): void {
    this.#hasRuns = true;
  }

  /** Some tasks may have spawned others. Most stores have none, and skip the lookups. */
  get hasChildren(): boolean {
    this.#hasChildren ??= this.get<{ task: number | null }>(LAST_CHILD)!.task !== null;
    return this.#hasChildren;
  }

  noteChild(): void {
    this.#hasChildren = true;
  }

  /** Notices were written for sessions, and the engine has not read them yet. */
  get hasNotices(): boolean {
    return this.#hasNotices;
  }

  noteNotice(): void {
    this.#hasNotices = true;
  }

  noteNoticesRead(): void {
    this.#hasNotices = false;
  }

  /** After a rollback: the copies may have been read from what the transaction wrote. */
  forget(): void {
    this.queues.forget();
    this.#stored = undefined;
    this.counters.forget();
    this.dropping.clear();
    this.addBuffer.forget();
    this.events.forget();
    this.topics.forget();
  }

  /**
   * Readings of this process that were not written count too, unless another process has advanced the clock since: then
   * its row is advanced, and the later of both counts.
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
   * The machine has booted since the last commit. Until the new boot is written, every process that opens the store
   * would count its time from zero: leases would not end, and after a clock step nothing would become due.
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

  /** Ignored while no process listens. */
  announce(event: DibsEvent): void {
    if (this.listeners > 0) this.events.announce(event);
  }
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
