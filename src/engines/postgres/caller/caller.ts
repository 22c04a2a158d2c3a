import { show } from "../../../core/errors/show.ts";
import { adapterFault, failureWithin, type StoreName } from "./caller-failure.ts";
import { inSchema } from "../statements/text.ts";

/** A client of `pg`, or `{ query(sql, params) }` around the transaction of another library, which returns the rows. */
export interface Caller {
  query(sql: string, params: unknown[]): unknown;
}

/**
 * Each row is returned as one JSON text. Libraries parse other types in different ways, and plugins of some rename columns;
 * they leave a column with a one-word name alone.
 */
const asText = (sql: string): string => `SELECT to_json(each)::text AS answer FROM (${sql}) AS each`;

/** The connection of a caller's transaction. Its errors become errors of dibs. */
export class CallerConnection {
  readonly #caller: Caller;
  readonly #store: StoreName;

  constructor(tx: unknown, store: StoreName) {
    if (typeof (tx as Caller | null | undefined)?.query !== "function") {
      throw adapterFault(
        `tx must be a client of pg inside its transaction, or { query(sql, params) } around another library's; got ` +
          `${show(tx)}${isThing(tx) ? " without a function query" : ""}.`,
      );
    }
    this.#caller = tx as Caller;
    this.#store = store;
  }

  /** Returns the rows. */
  async all<Row>(sql: string, ...params: unknown[]): Promise<Row[]> {
    const rows = await this.#ask(asText(sql), params);
    return rows.map((row) => {
      const text = (row as { answer?: unknown } | null | undefined)?.answer;
      if (typeof text !== "string") {
        throw adapterFault(
          `tx: each of the rows that query(sql, params) answers must be an object with the columns by their names; got ${show(row)}.`,
        );
      }
      return JSON.parse(text) as Row;
    });
  }

  /** Writes; returns the number of rows that came back. */
  async run(sql: string, ...params: unknown[]): Promise<number> {
    return (await this.#ask(sql, params)).length;
  }

  async #ask(sql: string, params: unknown[]): Promise<unknown[]> {
    const answer = await this.#answer(inSchema(sql, this.#store.schema), params);
    const rows = Array.isArray(answer) ? answer : (answer as { rows?: unknown } | null | undefined)?.rows;
    if (!Array.isArray(rows)) {
      throw adapterFault(`tx: query(sql, params) must answer the rows; it answered ${show(answer)}.`);
    }
    return rows as unknown[];
  }

  async #answer(sql: string, params: unknown[]): Promise<unknown> {
    try {
      return await this.#caller.query(sql, params);
    } catch (error) {
      throw failureWithin(error, this.#store);
    }
  }
}

function isThing(value: unknown): boolean {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}
