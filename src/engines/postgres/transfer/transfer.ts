import { setTimeout as sleep } from "node:timers/promises";
import { hostAndDatabaseOf } from "../../../core/process/address.ts";
import { DibsError } from "../../../core/errors/errors.ts";
import type { Counts, StoreHeader, StoreRecord } from "../../../core/record/record.ts";
import { StoreTransfer } from "../../../engine/store-transfer.ts";
import { openPostgres } from "../engine.ts";
import { failureFrom } from "../connection/failure.ts";
import { BEGIN, type Connection, type ConnectionOptions } from "../connection/connection.ts";
import { checkOneHost, checkSchemaName, labelOf, openConnection } from "../connection/open.ts";
import { countStore } from "./count.ts";
import { exportStore } from "./export.ts";
import { finishGroups } from "./finish.ts";
import { importRecords } from "./import.ts";

/** The statements of export, import and move. The order of their steps is in engine/store-transfer.ts. */

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
const CLAIMED = `
  SELECT (SELECT count(*) FROM dibs.claim)::int4 AS count, EXISTS (SELECT 1 FROM dibs.inbox) AS has_entries`;
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

/** Another transaction has used the store for LOCK_MS. */
class StoreInUse extends Error {}

class PostgresTransfer extends StoreTransfer {
  readonly label: string;
  readonly #link: Connection;
  readonly #url: string;

  constructor(link: Connection, url: string) {
    super();
    this.#link = link;
    this.#url = url;
    this.label = labelOf(hostAndDatabaseOf(url), link.schema);
  }

  protected beginRead(): Promise<void> {
    return this.#link.exec(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`);
  }

  protected async endRead(): Promise<void> {
    if (!this.#link.ended) await this.#link.exec("ROLLBACK");
  }

  protected failure(error: unknown): unknown {
    return failureFrom(error, this.label);
  }

  protected records(id: string | null, paused: readonly string[]): AsyncIterable<StoreRecord> {
    return exportStore(this.#link, id, paused);
  }

  protected async stored(): Promise<string | null> {
    const [row] = await this.#link.all<{ transfer: string | null }>(STATE);
    return row!.transfer;
  }

  protected async store(state: string | null, closed: boolean): Promise<void> {
    await this.#link.all(SET_STATE, state, closed);
  }

  protected async isEmpty(): Promise<boolean> {
    const [row] = await this.#link.all<{ empty: boolean }>(IS_EMPTY);
    return row!.empty;
  }

  protected async adopt(header: StoreHeader): Promise<void> {
    await this.#link.all(ADOPT, header.store);
    await this.#link.all(`SELECT ${raise("seq")}`, header.seq);
    await this.#link.all(`SELECT ${raise("fence")}`, header.fence);
  }

  protected import(records: readonly StoreRecord[]): Promise<void> {
    return importRecords(this.#link, records);
  }

  protected countRows(): Promise<Counts> {
    return countStore(this.#link);
  }

  protected async finishGroups(): Promise<void> {
    await finishGroups(this.#link);
    await this.#link.all(FORGET_COPIES);
  }

  protected async countClaims(): Promise<number> {
    const [row] = await this.#link.all<{ count: number; has_entries: boolean }>(CLAIMED);
    if (row!.count === 0 && row!.has_entries) throw new InboxNotEmpty();
    return row!.count;
  }

  protected async pauseAll(): Promise<string[]> {
    await this.#link.all(NEXT_REVISION);
    return (await this.#link.all<{ name: string }>(PAUSE)).map(({ name }) => name);
  }

  protected async resume(names: readonly string[]): Promise<void> {
    await this.#link.all(NEXT_REVISION);
    await this.#link.all(RESUME, names);
  }

  close(): Promise<void> {
    return this.#link.close();
  }

  protected async commit<T>(work: () => Promise<T> | T, { exclusive } = { exclusive: false }): Promise<T> {
    if (!exclusive) return this.#commitOnce(work);
    for (const until = performance.now() + PATIENCE_MS; ;) {
      try {
        return await this.#commitOnce(async () => {
          await this.#lockStore();
          return work();
        });
      } catch (error) {
        const isInbox = error instanceof InboxNotEmpty;
        if (!isInbox && !(error instanceof StoreInUse)) throw error;
        if (performance.now() > until) throw isInbox ? error : blocked(this.label, error.cause);
        await (isInbox ? this.#processInbox() : sleep(PAUSE_MS));
      }
    }
  }

  async #commitOnce<T>(work: () => Promise<T> | T): Promise<T> {
    const link = this.#link;
    try {
      await link.exec(`${BEGIN}; SET LOCAL synchronous_commit = on`);
      const answer = await work();
      await link.exec("COMMIT");
      return answer;
    } catch (error) {
      if (!link.ended) await link.exec("ROLLBACK").catch(() => link.destroy());
      throw error instanceof InboxNotEmpty || error instanceof StoreInUse ? error : this.failure(error);
    }
  }

  /**
   * Every batch has read the row of `store`, and so has every caller's transaction that used dibs. While this holds the
   * table's lock, none of them is in progress, and those that wait will read what it writes.
   */
  async #lockStore(): Promise<void> {
    await this.#link.exec(`SET LOCAL lock_timeout = ${LOCK_MS}`);
    try {
      await this.#link.exec(`LOCK TABLE dibs.store IN ACCESS EXCLUSIVE MODE`);
    } catch (error) {
      if (BLOCKED.has((error as { code?: string }).code ?? "")) throw new StoreInUse("", { cause: error });
      throw error;
    }
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
}

function blocked(label: string, cause: unknown): DibsError {
  return new DibsError(
    "UNAVAILABLE",
    `A transaction has used the store ${label} for more than ${PATIENCE_MS / 1_000} seconds. Nothing was changed. Try again when it is ` +
      `over; pg_stat_activity shows whose it is.`,
    { cause },
  );
}
