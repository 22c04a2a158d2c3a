import { DibsError } from "../../../core/errors.ts";
import { LIFE } from "./incarnation.ts";
import type { Connection } from "./connection.ts";

/**
 * Which store it is, of all that have tables of these names. A copy has the same salt: where it was restored from a dump its
 * tables have other numbers, a database that was made after the template of another has another name, and a copy of the
 * whole server, which takes over or is started beside it, another life (incarnation.ts). All of this anybody may ask.
 */
export const IDENTITY = `
  salt, tableoid::text || ' ' || current_database() AS place, ${LIFE} AS life`;

const READ = `SELECT ${IDENTITY} FROM dibs.store WHERE one = 1`;

export interface Identity {
  salt: number;
  place: string;
  life: string | null;
}

/** As it was last asked: each connection leads to one server, but for those that a pooler moves. */
const KNOWN = new WeakMap<Connection, Identity>();

export async function identityOf(link: Connection, how?: { anew: true }): Promise<Identity> {
  const known = how?.anew ? undefined : KNOWN.get(link);
  return known ?? readIdentity(link);
}

async function readIdentity(link: Connection): Promise<Identity> {
  const [row] = await link.all<Identity>(READ);
  if (!row) throw new Error("the store's row is missing");
  KNOWN.set(link, row);
  return row;
}

export function isSame(one: Identity, other: Identity): boolean {
  return one.salt === other.salt && one.place === other.place && one.life === other.life;
}

/** Whatever is done there would be done to somebody else's queues. */
export function elsewhere(isCopy: boolean, schema: string, where: string): DibsError {
  return new DibsError(
    "INVALID",
    `tx leads to ${isCopy ? "a copy of this store" : "another store"}: this one is in schema "${schema}" at ${where}. Nothing was ` +
      `changed. Give a transaction of that database, or open the store that yours leads to.`,
  );
}
