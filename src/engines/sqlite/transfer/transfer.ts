import { resolve } from "node:path";
import type { Database } from "better-sqlite3";
import type { Clock } from "../../../core/clock.ts";
import {
  type Counts,
  countRecord,
  noCounts,
  type StoreHeader,
  type StoreRecord,
} from "../../../core/record.ts";
import { Pages } from "../../../engine/pages.ts";
import { systemClock } from "../../../engine/system-clock.ts";
import {
  checkHold,
  checkImport,
  type Hold,
  isClosed,
  NO_TRANSFER,
  type TransferState,
  type TransferStore,
  wroteUpTo,
} from "../../../engine/transfer.ts";
import { failureFrom } from "../connection/failure.ts";
import { fillLane } from "../limits/move-lanes.ts";
import { openDatabase } from "../connection/open.ts";
import { Tx } from "../transaction/tx.ts";
import { countStore } from "./count.ts";
import { exportStore } from "./export.ts";
import { importRecord } from "./import.ts";

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

/** Export, import and move of a file: synchronous, on a connection of its own. */
export class SqliteTransfer implements TransferStore {
  readonly label: string;
  readonly #db: Database;
  readonly #tx: Tx;
  readonly #clock: Clock;

  constructor({ path, create = false, clock = systemClock }: TransferOptions) {
    this.label = resolve(path);
    this.#clock = clock;
    this.#db = openDatabase({ path, create }, clock.read());
    // Each commit is flushed to disk: they are few and large.
    this.#db.pragma("synchronous = FULL");
    this.#tx = new Tx(this.#db);
  }

  async *read(): AsyncGenerator<StoreRecord[]> {
    this.#begin("BEGIN");
    try {
      const state = this.#state();
      const [id, paused] = "paused" in state ? [state.id, state.paused] : [null, []];
      const counts = noCounts();
      const pages = new Pages();
      for (const record of exportStore(this.#tx, id, paused)) {
        countRecord(counts, record);
        const page = pages.add(record);
        if (page) yield page;
      }
      yield [...pages.rest(), { type: "end", counts }];
    } finally {
      this.#tx.exec("ROLLBACK");
    }
  }

  async state(): Promise<TransferState> {
    return this.#state();
  }

  #state(): TransferState {
    const { transfer } = this.#tx.get<{ transfer: string | null }>(STATE)!;
    return transfer === null ? NO_TRANSFER : (JSON.parse(transfer) as TransferState);
  }

  #setState(state: TransferState): void {
    this.#tx.run(SET_STATE, state.kind === "none" ? null : JSON.stringify(state), isClosed(state) ? 1 : 0);
  }

  async beginImport(header: StoreHeader): Promise<number> {
    return this.#commit((tx) => {
      const isEmpty = tx.get<{ empty: number }>(IS_EMPTY)!.empty === 1;
      const done = checkImport(this.#state(), header, { label: this.label, isEmpty });
      if (done > 0) return done;
      tx.run(ADOPT, header.store);
      tx.seq = Math.max(tx.seq, header.seq);
      tx.fence = Math.max(tx.fence, header.fence);
      // The store's clock never goes back.
      tx.time = { ...tx.time, now: Math.max(tx.now, header.now) };
      this.#setState({ kind: "importing", id: header.export, done: 0 });
      tx.finish();
      return 0;
    });
  }

  async write(records: readonly StoreRecord[], done: number): Promise<void> {
    this.#commit((tx) => {
      this.#setState(wroteUpTo(this.#state(), done - records.length, done, this.label));
      for (const record of records) importRecord(tx, record);
      tx.finish();
    });
  }

  async count(): Promise<Counts> {
    return this.#commit(countStore);
  }

  async finishImport(): Promise<void> {
    this.#commit((tx) => {
      const state = this.#state();
      if (state.kind !== "importing") return;
      // Groups whose heads have ended before the export.
      for (const { queue, group_key: key } of tx.all<{ queue: number; group_key: string }>(HEADLESS))
        fillLane(tx, tx.queues.of(queue), key);
      this.#setState({ kind: "imported", id: state.id });
      tx.finish();
    });
  }

  async hold({ id, to }: Hold, { drain }: { drain: boolean }): Promise<{ claimed: number }> {
    return this.#commit((tx) => {
      const before = this.#state();
      checkHold(before, { id, to }, this.label);
      if (before.kind === "held") return { claimed: 0 };
      const draining = before.kind === "draining" ? before : undefined;
      const { count: claimed } = tx.get<{ count: number }>(CLAIMED)!;
      const known = { id: draining?.id ?? id, to, paused: draining?.paused ?? [] };
      if (claimed === 0) this.#setState({ kind: "held", ...known });
      else if (drain)
        this.#setState({ ...known, kind: "draining", paused: [...known.paused, ...pauseAll(tx)] });
      tx.finish();
      return { claimed };
    });
  }

  async release(): Promise<void> {
    this.#commit((tx) => {
      const state = this.#state();
      if (!("paused" in state)) return;
      for (const name of state.paused) setPaused(tx, name, false);
      this.#setState(NO_TRANSFER);
      tx.finish();
    });
  }

  async markMoved(): Promise<void> {
    this.#commit(() => {
      const state = this.#state();
      if (state.kind === "held") this.#setState({ kind: "moved", id: state.id, to: state.to });
    });
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

  #commit<T>(work: (tx: Tx) => T): T {
    this.#begin("BEGIN IMMEDIATE");
    try {
      const answer = work(this.#tx);
      this.#tx.exec("COMMIT");
      return answer;
    } catch (error) {
      if (this.#db.inTransaction) this.#tx.exec("ROLLBACK");
      this.#tx.forget();
      throw failureFrom(error, this.label);
    }
  }
}

function pauseAll(tx: Tx): string[] {
  const names = [...tx.queues.all].filter(({ paused }) => !paused).map(({ name }) => name);
  for (const name of names) setPaused(tx, name, true);
  return names;
}

function setPaused(tx: Tx, name: string, paused: boolean): void {
  const queue = tx.queues.named(name);
  if (!queue) return;
  queue.paused = paused;
  tx.queues.store(queue);
}
