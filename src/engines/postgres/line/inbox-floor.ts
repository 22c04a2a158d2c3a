/**
 * The floor of the inbox: the transaction number at which a scan of the inbox begins. It works as the floors of the lines
 * (floors.ts), except that callers' transactions write entries without a lock, and may stay open for long.
 *
 * An entry has the number of its transaction. `inbox_floor` stores a snapshot: every entry of a transaction that had
 * committed then, and is not in `open`, was processed. So a scan reads the transactions in `open`, and those from `since`
 * on, which had not begun.
 */

// A store that was copied from another server may have a floor with numbers that this server has not given out yet.
const valueOf = (column: "since" | "open"): string => `(
    SELECT ${column} FROM dibs.inbox_floor WHERE since <= pg_snapshot_xmax(pg_current_snapshot()) ORDER BY n DESC LIMIT 1)`;

const SINCE = `inbox.xid >= coalesce(${valueOf("since")}, '0'::xid8)`;
const OPEN = `inbox.xid = ANY (coalesce(${valueOf("open")}, '{}'))`;

/** All entries, in no order. */
export const inboxEntries = (columns: string): string =>
  `SELECT ${columns} FROM dibs.inbox WHERE ${SINCE} UNION ALL SELECT ${columns} FROM dibs.inbox WHERE ${OPEN}`;

export const HAS_INBOX_ENTRIES = `(
    EXISTS (SELECT 1 FROM dibs.inbox WHERE ${SINCE}) OR EXISTS (SELECT 1 FROM dibs.inbox WHERE ${OPEN}))`;

/**
 * Every scan reads `open`. If more transactions are open, the floor stays where it is. It also stays if more entries are
 * left: only so many were read, and a transaction whose entries come behind them would be missing from `open`.
 */
const MOST_OPEN = 1_000;

/** CTEs of one statement, which one process at a time executes: the snapshot and the entries are of one moment. */
export const RAISE_INBOX_FLOOR = `
  left_over AS MATERIALIZED (
    SELECT xid FROM (${inboxEntries("xid")}) AS entry LIMIT ${MOST_OPEN} + 1
  ), now AS MATERIALIZED (
    SELECT pg_snapshot_xmax(pg_current_snapshot()) AS since, ARRAY (
      SELECT pg_snapshot_xip(pg_current_snapshot()) UNION SELECT xid FROM left_over) AS open
  ), raised_inbox AS (
    INSERT INTO dibs.inbox_floor (n, since, open)
    SELECT coalesce((SELECT n FROM dibs.inbox_floor ORDER BY n DESC LIMIT 1), 0) + 1, since, open
    FROM now WHERE cardinality(open) <= ${MOST_OPEN} AND (SELECT count(*) FROM left_over) <= ${MOST_OPEN} RETURNING n
  ), dropped_inbox AS (
    DELETE FROM dibs.inbox_floor USING raised_inbox WHERE inbox_floor.n = raised_inbox.n - 1
  )`;

/** Removes the floor if there are entries below it, as checkFloors (floors.ts) does: then scans read all entries again. */
export const DROP_INBOX_FLOOR = `
  DELETE FROM dibs.inbox_floor AS floor
  WHERE EXISTS (SELECT 1 FROM dibs.inbox WHERE inbox.xid < floor.since AND inbox.xid <> ALL (floor.open))`;
