import type { Database, Statement } from "better-sqlite3";

/** The layer between verbs and better-sqlite3: `Tx` extends it. */

export type Value = string | number | null | Uint8Array;

/**
 * The statements of one connection, each prepared once. They use `LIMIT 0 + ?`: SQLite plans by the value of a bare
 * `LIMIT ?`, and prepares it again each time it is bound.
 */
export class Statements {
  readonly #db: Database;
  readonly #statements = new Map<string, Statement>();
  /** Something was written since this was last set to false. */
  changed = false;

  constructor(db: Database) {
    this.#db = db;
  }

  /** Every statement that this connection has used, for the tests of query plans. */
  get statements(): Iterable<string> {
    return this.#statements.keys();
  }

  #prepare(sql: string): Statement {
    let statement = this.#statements.get(sql);
    if (!statement) {
      statement = this.#db.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  /** A statement without parameters and rows. */
  exec(sql: string): void {
    this.#prepare(sql).run();
  }

  // The caller names the type of the row, because only its SQL knows it: a type parameter that is used once, on
  // purpose.
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters
  get<Row>(sql: string, ...values: Value[]): Row | undefined {
    return this.#prepare(sql).get(values) as Row | undefined;
  }

  all<Row>(sql: string, ...values: Value[]): Row[] {
    return this.#prepare(sql).all(values) as Row[];
  }

  /** Values by name, for a statement that uses one of them twice. */
  allNamed<Row>(sql: string, values: Record<string, Value>): Row[] {
    return this.#prepare(sql).all(values) as Row[];
  }

  /** Rows as arrays. */
  rows<Row extends Value[]>(sql: string, ...values: Value[]): Row[] {
    return this.#prepare(sql).raw().all(values) as Row[];
  }

  each<Row>(sql: string, ...values: Value[]): IterableIterator<Row> {
    return this.#prepare(sql).iterate(values) as IterableIterator<Row>;
  }

  /** Writes; returns the number of rows. */
  run(sql: string, ...values: Value[]): number {
    const { changes } = this.#prepare(sql).run(values);
    if (changes > 0) this.changed = true;
    return changes;
  }

  /** Writes many rows: their values one after the other, and shared values by name. */
  runMany(sql: string, values: readonly Value[], shared: Record<string, Value>): void {
    this.#prepare(sql).run(values, shared);
    this.changed = true;
  }

  /** As runMany; returns rows as arrays. */
  takeMany<Row extends Value[]>(sql: string, values: readonly Value[], shared: Record<string, Value>): Row[] {
    const rows = this.#prepare(sql).raw().all(values, shared) as Row[];
    if (rows.length > 0) this.changed = true;
    return rows;
  }

  /** Writes, and returns the row. */
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters
  take<Row>(sql: string, ...values: Value[]): Row | undefined {
    const row = this.#prepare(sql).get(values) as Row | undefined;
    if (row !== undefined) this.changed = true;
    return row;
  }
}
