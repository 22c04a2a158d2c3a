/**
 * Where a look at the inbox begins: floors.ts for what others' transactions write, without a lock and for as long as they
 * stay open, so that no place or number of theirs says what may yet come.
 *
 * A note has its transaction's number. Of all that was committed at some moment nothing comes later: what is left of it,
 * and what was under way, is `open`, and what began after that is from `since` on. So no other notes need be looked for.
 */

// One that came with a copy of the store is of another server, which has given out more numbers.
const valueOf = (column: "since" | "open"): string => `(
    SELECT ${column} FROM dibs.inbox_floor WHERE since <= pg_snapshot_xmax(pg_current_snapshot()) ORDER BY n DESC LIMIT 1)`;

const SINCE = `inbox.xid >= coalesce(${valueOf("since")}, '0'::xid8)`;
const OPEN = `inbox.xid = ANY (coalesce(${valueOf("open")}, '{}'))`;

/** The notes there are, in no order. */
export const notes = (columns: string): string =>
  `SELECT ${columns} FROM dibs.inbox WHERE ${SINCE} UNION ALL SELECT ${columns} FROM dibs.inbox WHERE ${OPEN}`;

/** Others' transactions have left something to be taken up. */
export const HAS_INBOX_ENTRIES = `(
    EXISTS (SELECT 1 FROM dibs.inbox WHERE ${SINCE}) OR EXISTS (SELECT 1 FROM dibs.inbox WHERE ${OPEN}))`;

/**
 * Every look would read them: where more are open it stays where it is. The same where so many notes are left over that not
 * all of them were looked at: one transaction may have left a thousand, and what came behind them would be in neither.
 */
const MOST_OPEN = 1_000;

/** Parts of one statement, by one process at a time: it goes by the snapshot that it sees the notes in. */
export const RAISE_NOTES = `
  left_over AS MATERIALIZED (
    SELECT xid FROM (${notes("xid")}) AS notes LIMIT ${MOST_OPEN} + 1
  ), now AS MATERIALIZED (
    SELECT pg_snapshot_xmax(pg_current_snapshot()) AS since, ARRAY (
      SELECT pg_snapshot_xip(pg_current_snapshot()) UNION SELECT xid FROM left_over) AS open
  ), taken_up AS (
    INSERT INTO dibs.inbox_floor (n, since, open)
    SELECT coalesce((SELECT n FROM dibs.inbox_floor ORDER BY n DESC LIMIT 1), 0) + 1, since, open
    FROM now WHERE cardinality(open) <= ${MOST_OPEN} AND (SELECT count(*) FROM left_over) <= ${MOST_OPEN} RETURNING n
  ), looked_at AS (
    DELETE FROM dibs.inbox_floor USING taken_up WHERE inbox_floor.n = taken_up.n - 1
  )`;

/** Where there are others all the same, as in floors.ts: then all are looked at again. */
export const DROP_NOTES_FLOOR = `
  DELETE FROM dibs.inbox_floor AS floor
  WHERE EXISTS (SELECT 1 FROM dibs.inbox WHERE inbox.xid < floor.since AND inbox.xid <> ALL (floor.open))`;
