/** Tables whose rows are updated often, and their keys. */
const KEYS = { session: "id", gate: "queue" } as const;

/**
 * WHERE clause that finds such a row by its key. While any transaction stays open, PostgreSQL keeps every version of the
 * row, and a search by the key alone reads them all, the oldest first. So each version has a number, which every update
 * raises, and the search starts at the newest. A version that is committed after the statement began has a higher number,
 * and is found too when the row is locked.
 */
export const newest = (table: keyof typeof KEYS, key: string, from = newestOf(table, key)): string =>
  `${table}.${KEYS[table]} = ${key} AND ${table}.n >= ${from}`;

/** The number itself, for a statement that uses it several times. */
export const newestOf = (table: keyof typeof KEYS, key: string): string => `(
      SELECT newest.n FROM dibs.${table} AS newest WHERE newest.${KEYS[table]} = ${key} ORDER BY newest.n DESC LIMIT 1)`;

/**
 * A heartbeat is fresh for this share of the lease, and a claim then does not write another one: heartbeats come every
 * third of a lease. The simulation sets it to 0, because its model counts each one.
 */
export const HEARTBEAT = { fresh: 0.5 };

/** Condition on a session: its last heartbeat is fresh. */
export const isFresh = (awake: string, share: string): string =>
  `heartbeat_at > ${awake} - lease * ${share}::float8`;
