import { DibsError } from "../../../core/errors/errors.ts";
import { INCARNATION } from "./incarnation.ts";
import type { Connection } from "./connection.ts";

/**
 * Identifies a store, so that a caller's transaction on another database is refused. A copy has the same salt. But a
 * restored dump has other table numbers, a database created from a template has another name, and a copy of the whole
 * server has another incarnation (incarnation.ts). Every user may read these.
 */
export const IDENTITY = `
  salt, tableoid::text || ' ' || current_database() AS location, ${INCARNATION} AS incarnation`;

const READ = `SELECT ${IDENTITY} FROM dibs.store WHERE one = 1`;

export interface Identity {
  salt: number;
  location: string;
  incarnation: string | null;
}

/** The last answer: a connection leads to one server, unless a pooler moves it. */
const KNOWN = new WeakMap<Connection, Identity>();

export async function identityOf(link: Connection, how?: { refresh: true }): Promise<Identity> {
  const known = how?.refresh ? undefined : KNOWN.get(link);
  return known ?? readIdentity(link);
}

async function readIdentity(link: Connection): Promise<Identity> {
  const [row] = await link.all<Identity>(READ);
  if (!row) throw new Error("the store's row is missing");
  KNOWN.set(link, row);
  return row;
}

export function isSame(one: Identity, other: Identity): boolean {
  return one.salt === other.salt && one.location === other.location && one.incarnation === other.incarnation;
}

/** The transaction would change the queues of another store. */
export function elsewhere(isCopy: boolean, schema: string, where: string): DibsError {
  return new DibsError(
    "INVALID",
    `tx leads to ${isCopy ? "a copy of this store" : "another store"}: this one is in schema "${schema}" at ${where}. Nothing was ` +
      `changed. Give a transaction of that database, or open the store that yours leads to.`,
  );
}
