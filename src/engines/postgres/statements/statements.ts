import type { Connection, Value } from "../connection/connection.ts";
import { StaleRead } from "../connection/batch-conflicts.ts";

/** An answer that was asked for before its time, and what it is about. */
export interface SentAhead<What, Row extends unknown[]> {
  what: What;
  answer: Promise<Row[]>;
}

/**
 * The statements of a transaction. What a verb only writes is sent without waiting for the answer; a failure shows at the end,
 * when nothing is committed yet.
 */
export class Statements {
  readonly link: Connection;
  /** Something was written. */
  changed = false;
  /** Something was sent that may yet meet another transaction's lock. */
  tangled = false;
  /** The first thing that went wrong with what was sent. */
  failure: unknown;
  /** What was sent along with the header, or before its turn, by the operation that will ask for it. */
  readonly foreseen = new Map<object, SentAhead<unknown, unknown[]>>();
  #sent: Promise<unknown>[] = [];

  constructor(link: Connection) {
    this.link = link;
  }

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
    this.keep(answer);
    this.foreseen.set(op, { what, answer });
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
    this.keep(this.link.query(sql, values));
  }

  /** Writes, and does not wait: where it finds no row, others were faster, and the transaction fails at its end. */
  sendToFind(sql: string, ...values: Value[]): void {
    this.tangled = true;
    this.changed = true;
    this.keep(this.#find(sql, values));
  }

  async #find(sql: string, values: Value[]): Promise<void> {
    const { rowCount } = await this.link.query(sql, values);
    if (rowCount === 0) throw new StaleRead();
  }

  protected keep(answer: Promise<unknown>): void {
    // Looked at when the transaction ends; until then it must not count as unhandled.
    answer.catch((error: unknown) => (this.failure ??= error));
    this.#sent.push(answer);
  }

  /** What a statement that nobody waited for met makes all that follow fail, in words that do not tell why. */
  firstFailure(thrown: unknown): unknown {
    const isSequel = (thrown as { code?: string }).code === "25P02";
    return isSequel ? (this.failure ?? thrown) : thrown;
  }

  /** Until everything that was sent has been carried out. */
  async settled(): Promise<void> {
    const sent = this.#sent;
    this.#sent = [];
    await Promise.all(sent);
  }

  /** Sends the commit; resolves when it, and all that was sent before, has been carried out. */
  commit(): Promise<unknown> {
    const sent = this.#sent;
    this.#sent = [];
    const committed = Promise.all([...sent, this.link.exec("COMMIT")]);
    // The next batch is written down while this one reaches the disk.
    this.link.flush();
    return committed;
  }

  /** After a rollback nobody looks at the answers any more. */
  protected forgetSent(): void {
    this.#sent = [];
  }
}
