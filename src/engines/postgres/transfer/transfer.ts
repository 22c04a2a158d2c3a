import { setTimeout as sleep } from "node:timers/promises";
import { hostAndDatabaseOf } from "../../../core/address.ts";
import { DibsError } from "../../../core/errors.ts";
import {
  type Counts,
  countRecord,
  noCounts,
  type StoreHeader,
  type StoreRecord,
} from "../../../core/record.ts";
import { Pages } from "../../../engine/pages.ts";
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
import { openPostgres } from "../engine.ts";
import { failureFrom } from "../connection/failure.ts";
import { BEGIN, type Connection, type ConnectionOptions } from "../connection/connection.ts";
import { checkOneHost, checkSchemaName, labelOf, openConnection } from "../connection/open.ts";
import { countStore } from "./count.ts";
import { exportStore } from "./export.ts";
import { finishGroups } from "./finish.ts";
import { importRecords } from "./import.ts";
import { openTarget } from "./target.ts";

export interface TransferOptions {
  url: string;
  schema?: string;
  /** False: a schema that does not exist is not created. */
  create?: boolean;
}

const CONNECT_MS = 10_000;

/** Opens a store for export, import and move (transfer/open.ts), on its own connection. */
export async function openPostgresTransfer(options: TransferOptions): Promise<PostgresTransfer> {
  const { url, create = false } = options;
  const schema = checkSchemaName(options.schema ?? "dibs");
  checkOneHost(url);
  // Works through a pooler, and without a timeout for long transactions.
  const link: ConnectionOptions = { url, schema, prepare: false, settings: {}, connectMs: CONNECT_MS };
  return new PostgresTransfer(await openConnection({ link, create, closedToo: true }), url);
}

const STATE = `SELECT transfer FROM dibs.store WHERE one = 1`;
const SET_STATE = `UPDATE dibs.store SET transfer = $1, closed = $2 WHERE one = 1`;
const IS_EMPTY = `
  SELECT NOT EXISTS (SELECT 1 FROM dibs.queue) AND NOT EXISTS (SELECT 1 FROM dibs.document)
    AND NOT EXISTS (SELECT 1 FROM dibs.subscription) AS empty`;
// Makes every process read queues and subscriptions again.
const ADOPT = `
  UPDATE dibs.store SET salt = $1, epoch = epoch + 1, revision = revision + 1, unsubscribed = unsubscribed + 1 WHERE one = 1`;
const raise = (sequence: string): string =>
  `setval('dibs.${sequence}', greatest((SELECT last_value FROM dibs.${sequence}), $1::int8, 1))`;
const FORGET_COPIES = `UPDATE dibs.store SET epoch = epoch + 1, unsubscribed = unsubscribed + 1 WHERE one = 1`;
const CLAIMED = `SELECT count(*)::int4 AS count FROM dibs.claim`;
const HAS_INBOX_ENTRIES = `SELECT EXISTS (SELECT 1 FROM dibs.inbox) AS has_entries`;
const NEXT_REVISION = `UPDATE dibs.store SET revision = revision + 1 WHERE one = 1`;
const PAUSE = `
  UPDATE dibs.queue SET paused = true, revision = (SELECT revision FROM dibs.store WHERE one = 1)
  WHERE NOT paused RETURNING name`;
const RESUME = `
  UPDATE dibs.queue SET paused = false, revision = (SELECT revision FROM dibs.store WHERE one = 1)
  WHERE name = ANY ($1::text[])`;

/** How long it waits for open transactions, callers' too. All other batches wait behind it, so it retries with pauses. */
const LOCK_MS = 500;
const PATIENCE_MS = 30_000;
const PAUSE_MS = 250;
const BLOCKED = new Set(["55P03", "40P01"]);

/** The inbox has entries, which must be processed before a store is held. */
class InboxNotEmpty extends Error {}

class PostgresTransfer implements TransferStore {
  readonly label: string;
  readonly #link: Connection;
  readonly #url: string;

  constructor(link: Connection, url: string) {
    this.#link = link;
    this.#url = url;
    this.label = labelOf(hostAndDatabaseOf(url), link.schema);
  }

  async *read(): AsyncGenerator<StoreRecord[]> {
    const link = this.#link;
    await link.exec(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`);
    try {
      const state = await this.state();
      const [id, paused] = "paused" in state ? [state.id, state.paused] : [null, []];
      const counts = noCounts();
      const pages = new Pages();
      for await (const record of exportStore(link, id, paused)) {
        countRecord(counts, record);
        const page = pages.add(record);
        if (page) yield page;
      }
      yield [...pages.rest(), { type: "end", counts }];
    } catch (error) {
      throw failureFrom(error, this.label);
    } finally {
      if (!link.ended) await link.exec("ROLLBACK");
    }
  }

  async state(): Promise<TransferState> {
    const [row] = await this.#link.all<{ transfer: string | null }>(STATE);
    return row!.transfer === null ? NO_TRANSFER : (JSON.parse(row!.transfer) as TransferState);
  }

  async #setState(state: TransferState): Promise<void> {
    const text = state.kind === "none" ? null : JSON.stringify(state);
    await this.#link.all(SET_STATE, text, isClosed(state));
  }

  beginImport(header: StoreHeader): Promise<number> {
    return this.#exclusively(async (link) => {
      const [row] = await link.all<{ empty: boolean }>(IS_EMPTY);
      const done = checkImport(await this.state(), header, { label: this.label, isEmpty: row!.empty });
      if (done > 0) return done;
      await link.all(ADOPT, header.store);
      await link.all(`SELECT ${raise("seq")}`, header.seq);
      await link.all(`SELECT ${raise("fence")}`, header.fence);
      await this.#setState({ kind: "importing", id: header.export, done: 0 });
      return 0;
    });
  }

  write(records: readonly StoreRecord[], done: number): Promise<void> {
    return this.#commit(async (link) => {
      await this.#setState(wroteUpTo(await this.state(), done - records.length, done, this.label));
      await importRecords(await openTarget(link), records);
    });
  }

  count(): Promise<Counts> {
    return this.#commit(countStore);
  }

  finishImport(): Promise<void> {
    return this.#exclusively(async (link) => {
      const state = await this.state();
      if (state.kind !== "importing") return;
      await finishGroups(link);
      await link.all(FORGET_COPIES);
      await this.#setState({ kind: "imported", id: state.id });
    });
  }

  async hold({ id, to }: Hold, { drain }: { drain: boolean }): Promise<{ claimed: number }> {
    for (const until = performance.now() + PATIENCE_MS; ;) {
      try {
        return await this.#exclusively((link) => this.#holdOnce(link, { id, to }, drain));
      } catch (error) {
        if (!(error instanceof InboxNotEmpty) || performance.now() > until) throw error;
        await this.#processInbox();
      }
    }
  }

  async #holdOnce(link: Connection, { id, to }: Hold, drain: boolean): Promise<{ claimed: number }> {
    const before = await this.state();
    checkHold(before, { id, to }, this.label);
    if (before.kind === "held") return { claimed: 0 };
    const draining = before.kind === "draining" ? before : undefined;
    const known = { id: draining?.id ?? id, to, paused: draining?.paused ?? [] };
    const [{ count: claimed } = { count: 0 }] = await link.all<{ count: number }>(CLAIMED);
    if (claimed === 0) {
      const [row] = await link.all<{ has_entries: boolean }>(HAS_INBOX_ENTRIES);
      if (row!.has_entries) throw new InboxNotEmpty();
      await this.#setState({ kind: "held", ...known });
    } else if (drain) {
      await link.all(NEXT_REVISION);
      const paused = (await link.all<{ name: string }>(PAUSE)).map(({ name }) => name);
      await this.#setState({ ...known, kind: "draining", paused: [...known.paused, ...paused] });
    }
    return { claimed };
  }

  /** Every batch of the engine processes the inbox first. */
  async #processInbox(): Promise<void> {
    const engine = await openPostgres({
      url: this.#url,
      schema: this.#link.schema,
      create: false,
      listen: false,
    });
    try {
      await engine.execute([{ verb: "housekeep" }]);
    } finally {
      await engine.close();
    }
  }

  release(): Promise<void> {
    return this.#exclusively(async (link) => {
      const state = await this.state();
      if (!("paused" in state)) return;
      await link.all(NEXT_REVISION);
      await link.all(RESUME, state.paused);
      await this.#setState(NO_TRANSFER);
    });
  }

  markMoved(): Promise<void> {
    return this.#commit(async () => {
      const state = await this.state();
      if (state.kind === "held") await this.#setState({ kind: "moved", id: state.id, to: state.to });
    });
  }

  close(): Promise<void> {
    return this.#link.close();
  }

  async #commit<T>(work: (link: Connection) => Promise<T>): Promise<T> {
    const link = this.#link;
    try {
      await link.exec(`${BEGIN}; SET LOCAL synchronous_commit = on`);
      const answer = await work(link);
      await link.exec("COMMIT");
      return answer;
    } catch (error) {
      if (!link.ended) await link.exec("ROLLBACK").catch(() => link.destroy());
      throw error instanceof InboxNotEmpty ? error : failureFrom(error, this.label);
    }
  }

  /**
   * Every batch has read the row of `store`, and so has every caller's transaction that used dibs. While this holds the
   * table's lock, none of them is in progress, and those that wait will read what it writes.
   */
  async #exclusively<T>(work: (link: Connection) => Promise<T>): Promise<T> {
    for (const until = performance.now() + PATIENCE_MS; ;) {
      let isLocked = false;
      try {
        return await this.#commit(async (link) => {
          await link.exec(`SET LOCAL lock_timeout = ${LOCK_MS}`);
          try {
            await link.exec(`LOCK TABLE dibs.store IN ACCESS EXCLUSIVE MODE`);
          } catch (error) {
            isLocked = BLOCKED.has((error as { code?: string }).code ?? "");
            throw error;
          }
          return work(link);
        });
      } catch (error) {
        if (!isLocked) throw error;
        if (performance.now() > until) throw blocked(this.label, error);
      }
      await sleep(PAUSE_MS);
    }
  }
}

function blocked(label: string, cause: unknown): DibsError {
  return new DibsError(
    "UNAVAILABLE",
    `A transaction has used the store ${label} for more than ${PATIENCE_MS / 1_000} seconds. Nothing was changed. Try again when it is ` +
      `over; pg_stat_activity shows whose it is.`,
    { cause },
  );
}
