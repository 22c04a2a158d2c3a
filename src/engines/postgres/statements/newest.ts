/** Rows that are written again and again, by what they are known. */
const KEYS = { session: "id", gate: "queue" } as const;

/**
 * To be said of such a row instead of its key alone. While somebody's transaction stays open PostgreSQL keeps every version
 * of it, and who looks by the key walks over them, the oldest first. So each version has a number, which every update
 * raises: the newest is found at once, and what is below it is not looked at. One that is still newer, by a commit since
 * the statement began, counts too: it is met when the row is locked.
 */
export const newest = (table: keyof typeof KEYS, key: string, from = newestOf(table, key)): string =>
  `${table}.${KEYS[table]} = ${key} AND ${table}.n >= ${from}`;

/** The number itself, for a statement that says so several times. */
export const newestOf = (table: keyof typeof KEYS, key: string): string => `(
      SELECT newest.n FROM dibs.${table} AS newest WHERE newest.${KEYS[table]} = ${key} ORDER BY newest.n DESC LIMIT 1)`;

/**
 * For this share of a lease a sign of life counts as fresh, and a claim does not write another one: heartbeats come every third of
 * a lease. The simulation sets it to 0, because its model counts each one.
 */
export const SIGN_OF_LIFE = { fresh: 0.5 };

/** Of a session that gave a sign of life within that share of its lease. */
export const isFresh = (awake: string, share: string): string =>
  `beat_at > ${awake} - lease * ${share}::float8`;
