import { type Connection, Query, type QueryConfig, type QueryResult } from "pg";

/** What pg's query has, and its types do not know. */
interface Inner {
  hasBeenParsed(connection: Wire): boolean;
  prepare(connection: Wire): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: Wire): void;
}

interface Wire extends Connection {
  parse(config: { name: string; text: string }): void;
  bind(config: { portal: string; statement: string; values: [] }): void;
  execute(config: { portal: string }): void;
  sync(): void;
  submittedNamedStatements: Record<string, string>;
}

interface Statement {
  name: string;
  text: string;
}

const inner = Query.prototype as unknown as Inner;

/** Prepares a statement, and does not carry it out. */
export class Preparation extends Query {
  declare callback: (error: Error | null, result: QueryResult) => void;
  readonly #statement: Statement;

  constructor(statement: Statement) {
    super(statement);
    this.#statement = statement;
  }

  prepare(connection: Wire): void {
    if (!inner.hasBeenParsed.call(this, connection)) {
      connection.parse(this.#statement);
      connection.submittedNamedStatements[this.#statement.name] = this.#statement.text;
    }
    connection.sync();
  }
}

/**
 * A query with other statements before it, whose rows nobody asks for. No word of the end is sent between them, so that all are
 * answered together: each answer that comes by itself wakes this process. Where no transaction is open they are one, which ends
 * with them. All of them are prepared: one that fails takes with it what comes behind it, and that would never be.
 */
export class LedQuery extends Query {
  declare callback: (error: Error | null, result: QueryResult) => void;
  readonly #leaders: readonly string[];
  #left: number;

  /** `leaders`: their names. */
  constructor(config: QueryConfig & { rowMode?: "array" }, leaders: readonly string[]) {
    super(config);
    this.#leaders = leaders;
    this.#left = leaders.length;
  }

  prepare(connection: Wire): void {
    for (const statement of this.#leaders) {
      connection.bind({ portal: "", statement, values: [] });
      connection.execute({ portal: "" });
    }
    inner.prepare.call(this, connection);
  }

  handleDataRow(message: unknown): void {
    if (this.#left === 0) inner.handleDataRow.call(this, message);
  }

  handleCommandComplete(message: unknown, connection: Wire): void {
    if (this.#left === 0) inner.handleCommandComplete.call(this, message, connection);
    else this.#left--;
  }
}
