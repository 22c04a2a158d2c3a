import type { Connection, Value } from "../connection/connection.ts";
import { StaleRead } from "../connection/batch-conflicts.ts";

/** A statement that was sent before the turn of its operation. */
export interface SentAhead<What, Row extends unknown[]> {
  /** What the statement is about: what the operation computed when it was sent. */
  what: What;
  answer: Promise<Row[]>;
}

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
   * failure that caused it.
   */
  firstFailure(thrown: unknown): unknown {
    const isRefused = (thrown as { code?: string }).code === "25P02";
    return isRefused ? (this.#failure ?? thrown) : thrown;
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
