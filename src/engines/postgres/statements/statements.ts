import type { QueryResult } from "pg";
import type { Connection, Value } from "../connection/connection.ts";
import { type Locks, LocksNeeded, StaleRead, type Wait } from "../connection/batch-conflicts.ts";

/** A statement that was sent before the turn of its operation. */
export interface SentAhead<What, Row extends unknown[]> {
  /** What the statement is about: what the operation computed when it was sent. */
  what: What;
  answer: Promise<Row[]>;
}

const LOCKING = /FOR (?:NO KEY )?UPDATE(?: OF \w+)? SKIP LOCKED/;

/**
 * The statements of a transaction; Tx extends it. A verb does not wait for what it only writes. If such a statement
 * fails, the commit fails.
 */
export class Statements {
  readonly link: Connection;
  /** By the operation that will use the answer. */
  readonly sentAhead = new Map<object, SentAhead<unknown, unknown[]>>();
  #changed = false;
  #mayBlock = false;
  #failure: unknown;
  /** What the batch needs before it can start again, by the error that says so. */
  readonly #needed = new Map<unknown, LocksNeeded>();
  #sent: Promise<unknown>[] = [];

  constructor(link: Connection) {
    this.link = link;
  }

  /** Before the first statement of a transaction. */
  protected reset(): void {
    this.sentAhead.clear();
    this.#changed = false;
    this.#mayBlock = false;
    this.#failure = undefined;
    this.#needed.clear();
    this.#sent = [];
  }

  /** Something was written. */
  get changed(): boolean {
    return this.#changed;
  }

  /** For callers of `all`, `get` and `rows` whose statement wrote something. */
  noteWrite(): void {
    this.#changed = true;
  }

  /** A statement was sent that may have to wait for another transaction's lock. */
  get mayBlock(): boolean {
    return this.#mayBlock;
  }

  async all<Row>(sql: string, ...values: Value[]): Promise<Row[]> {
    return (await this.link.query(sql, values)).rows as Row[];
  }

  async get<Row>(sql: string, ...values: Value[]): Promise<Row | undefined> {
    return (await this.link.query(sql, values)).rows[0] as Row | undefined;
  }

  /**
   * As `get`, for a statement that locks one row and says SKIP LOCKED. If another transaction holds the row, the batch
   * starts again, and waits for it at its beginning (connection/locks.ts). The server logs every failure of a NOWAIT.
   */
  async lockOne<Row>(sql: string, ...values: Value[]): Promise<Row | undefined> {
    const row = await this.get<Row>(sql, ...values);
    if (row !== undefined || (await this.get(sql.replace(LOCKING, ""), ...values)) === undefined) return row;
    throw new LocksNeeded({ rows: { sql: sql.replace(" SKIP LOCKED", ""), values } });
  }

  /**
   * As `all`, for a statement that locks rows and says NOWAIT. If another transaction holds one of them, the batch starts
   * again, and waits for them at its beginning (connection/locks.ts). `wait` locks the same rows, if this statement does
   * more than that.
   */
  async lock<Row>(sql: string, values: readonly Value[], wait: Wait = { sql, values }): Promise<Row[]> {
    return (await this.#orNeed(this.link.query(sql, values), { rows: patient(wait) })).rows as Row[];
  }

  /** As `lock`, with rows as arrays. */
  async lockRows<Row extends unknown[]>(sql: string, values: readonly Value[], wait: Wait): Promise<Row[]> {
    return (await this.#orNeed(this.link.rows(sql, values), { rows: patient(wait) })) as Row[];
  }

  /** As `send`, for a statement that says NOWAIT. */
  sendAtOnce(sql: string, values: readonly Value[], wait: Wait): void {
    this.#changed = true;
    // It does not wait, but it may fail.
    this.#mayBlock = true;
    this.#sent.push(this.#orNeed(this.link.query(sql, values), { rows: patient(wait) }));
  }

  /** The statement fails if another transaction holds a lock that it needs. Then the batch starts again with these locks. */
  #orNeed<T>(answer: Promise<T>, locks: Partial<Locks>): Promise<T> {
    answer.catch((error: unknown) => {
      if ((error as { code?: string }).code === "55P03") this.#needed.set(error, new LocksNeeded(locks));
      this.noteFailure(error);
    });
    return answer;
  }

  /** As `lock`, but the batch waits before it begins, and does not keep the locks that it waited for. */
  async attempt(sql: string, values: readonly Value[], wait: Wait = { sql, values }): Promise<QueryResult> {
    return this.#orNeed(this.link.query(sql, values), { before: patient(wait) });
  }

  /** Rows as arrays, which `pg` parses faster than objects. */
  async rows<Row extends unknown[]>(sql: string, ...values: Value[]): Promise<Row[]> {
    return (await this.link.rows(sql, values)) as Row[];
  }

  /** As `rows`, for an operation whose turn has not come: it finds the answer in `sentAhead`. */
  sendAhead(op: object, what: unknown, sql: string, ...values: Value[]): void {
    const answer = this.link.rows(sql, values);
    this.keep(answer);
    this.sentAhead.set(op, { what, answer });
  }

  /** Writes; returns the number of rows. */
  async run(sql: string, ...values: Value[]): Promise<number> {
    const { rowCount } = await this.link.query(sql, values);
    if (rowCount) this.#changed = true;
    return rowCount ?? 0;
  }

  /** Writes; returns the rows. */
  async take<Row>(sql: string, ...values: Value[]): Promise<Row[]> {
    const rows = await this.all<Row>(sql, ...values);
    if (rows.length > 0) this.#changed = true;
    return rows;
  }

  /** Writes without waiting for the answer. */
  send(sql: string, ...values: Value[]): void {
    this.#mayBlock = true;
    this.put(sql, ...values);
  }

  /** As `send`, for rows that no other transaction can know: it never waits for a lock. */
  put(sql: string, ...values: Value[]): void {
    this.#changed = true;
    this.keep(this.link.query(sql, values));
  }

  /** As `send`. The transaction fails with StaleRead if the statement finds no row. */
  sendToFind(sql: string, ...values: Value[]): void {
    this.#mayBlock = true;
    this.#changed = true;
    this.keep(this.#find(sql, values));
  }

  async #find(sql: string, values: Value[]): Promise<void> {
    const { rowCount } = await this.link.query(sql, values);
    if (rowCount === 0) throw new StaleRead();
  }

  /** Awaited when the transaction ends. Until then a failure must not count as an unhandled rejection. */
  protected keep(answer: Promise<unknown>): void {
    answer.catch((error: unknown) => this.noteFailure(error));
    this.#sent.push(answer);
  }

  protected noteFailure(error: unknown): void {
    this.#failure ??= error;
  }

  /**
   * After a failed statement PostgreSQL refuses every other one of the transaction with code 25P02. This returns the
   * failure that caused it, or the locks that it calls for.
   */
  firstFailure(thrown: unknown): unknown {
    const isRefused = (thrown as { code?: string }).code === "25P02";
    const first = isRefused ? (this.#failure ?? thrown) : thrown;
    return this.#needed.get(first) ?? first;
  }

  /** Resolves when every statement that was sent is answered. */
  async settled(): Promise<void> {
    const sent = this.#sent;
    this.#sent = [];
    await Promise.all(sent);
  }

  /** Sends the commit; resolves when it and every statement before it are answered. */
  commit(): Promise<unknown> {
    const sent = this.#sent;
    this.#sent = [];
    const committed = Promise.all([...sent, this.link.exec("COMMIT")]);
    // To the socket now: the server flushes this commit to disk while the next batch is encoded.
    this.link.flush();
    return committed;
  }

  /** After a rollback: the answers do not matter. */
  protected forgetSent(): void {
    this.#sent = [];
  }
}

/** The same, without NOWAIT. */
function patient({ sql, values }: Wait): Wait {
  return { sql: sql.replaceAll(" NOWAIT", ""), values };
}
