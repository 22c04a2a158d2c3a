import { resolve } from "node:path";
import type { Database } from "better-sqlite3";
import type { Clock } from "../../../core/time/clock.ts";
import type { Counts, StoreHeader, StoreRecord } from "../../../core/record/record.ts";
import { StoreTransfer } from "../../../engine/store-transfer.ts";
import { systemClock } from "../../../engine/system-clock.ts";
import { failureFrom } from "../connection/failure.ts";
import { fillLane } from "../limits/move-lanes.ts";
import { openDatabase } from "../connection/open.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { Tx } from "../transaction/tx.ts";
import { countStore } from "./count.ts";
import { exportStore } from "./export.ts";
import { importRecord } from "./import.ts";

/** The statements of export, import and move. The order of their steps is in engine/store-transfer.ts. */

export interface TransferOptions {
  path: string;
  /** False: a file that does not exist is not created. */
  create?: boolean;
  clock?: Clock;
}

const STATE = `SELECT transfer FROM store`;
const SET_STATE = `UPDATE store SET transfer = ?, closed = ?`;
const IS_EMPTY = `
  SELECT NOT EXISTS (SELECT 1 FROM queue) AND NOT EXISTS (SELECT 1 FROM document) AND NOT EXISTS (SELECT 1 FROM subscription) AS empty`;
const ADOPT = `UPDATE store SET salt = ?`;
const CLAIMED = `SELECT count(*) AS count FROM claim`;
const HEADLESS = `
  SELECT DISTINCT queue, group_key FROM waiting
  WHERE NOT EXISTS (
    SELECT 1 FROM lane WHERE lane.queue = waiting.queue AND lane.group_key = waiting.group_key
      AND (coalesce(json_extract(state, '$.holders'), 1) > 0 OR json_extract(state, '$.wakeAt') IS NOT NULL))`;

/** Export, import and move of a file, on its own connection. Statements are synchronous. */
export class SqliteTransfer extends StoreTransfer {
  readonly label: string;
  readonly #db: Database;
  readonly #tx: Tx;
  readonly #clock: Clock;

  constructor({ path, create = false, clock = systemClock }: TransferOptions) {
    super();
    this.label = resolve(path);
    this.#clock = clock;
    this.#db = openDatabase({ path, create }, clock.read());
    // Each commit is flushed to disk: they are few and large.
    this.#db.pragma("synchronous = FULL");
    this.#tx = new Tx(this.#db);
  }

  protected beginRead(): void {
    this.#begin("BEGIN");
  }

  protected endRead(): void {
    this.#tx.exec("ROLLBACK");
  }

  protected failure(error: unknown): unknown {
    return failureFrom(error, this.label);
  }

  protected records(id: string | null, paused: readonly string[]): Iterable<StoreRecord> {
    return exportStore(this.#tx, id, paused);
  }

  protected stored(): string | null {
    return this.#tx.get<{ transfer: string | null }>(STATE)!.transfer;
  }

  protected store(state: string | null, closed: boolean): void {
    this.#tx.run(SET_STATE, state, closed ? 1 : 0);
  }

  protected isEmpty(): boolean {
    return this.#tx.get<{ empty: number }>(IS_EMPTY)!.empty === 1;
  }

  protected adopt(header: StoreHeader): void {
    const tx = this.#tx;
    tx.run(ADOPT, header.store);
    tx.seq = Math.max(tx.seq, header.seq);
    tx.fence = Math.max(tx.fence, header.fence);
    // The store's clock never goes back.
    tx.time = { ...tx.time, now: Math.max(tx.now, header.now) };
  }

  protected import(records: readonly StoreRecord[]): void {
    for (const record of records) importRecord(this.#tx, record);
  }

  protected countRows(): Counts {
    return countStore(this.#tx);
  }

  protected finishGroups(): void {
    const tx = this.#tx;
    for (const { queue, group_key: key } of tx.all<{ queue: number; group_key: string }>(HEADLESS))
      fillLane(tx, tx.queues.of(queue), key);
  }

  protected countClaims(): number {
    return this.#tx.get<{ count: number }>(CLAIMED)!.count;
  }

  protected pauseAll(): string[] {
    const queues = [...this.#tx.queues.all].filter(({ paused }) => !paused);
    for (const queue of queues) this.#setPaused(queue, true);
    return queues.map(({ name }) => name);
  }

  protected resume(names: readonly string[]): void {
    for (const name of names) {
      const queue = this.#tx.queues.named(name);
      if (queue) this.#setPaused(queue, false);
    }
  }

  #setPaused(queue: Queue, paused: boolean): void {
    queue.paused = paused;
    this.#tx.queues.store(queue);
  }

  async close(): Promise<void> {
    this.#db.close();
  }

  #begin(begin: string): void {
    try {
      this.#tx.exec(begin);
      this.#tx.begin(this.#clock.read());
    } catch (error) {
      throw failureFrom(error, this.label);
    }
  }

  /** Always exclusive: SQLite has one writer at a time. */
  protected async commit<T>(work: () => Promise<T> | T): Promise<T> {
    this.#begin("BEGIN IMMEDIATE");
    try {
      const answer = await work();
      this.#tx.finish();
      this.#tx.exec("COMMIT");
      return answer;
    } catch (error) {
      if (this.#db.inTransaction) this.#tx.exec("ROLLBACK");
      this.#tx.forget();
      throw failureFrom(error, this.label);
    }
  }
}
