/**
 * Parts of statements that look rows up by an index, written so that the planner has no other choice.
 *
 * The planner uses statistics of the last VACUUM or ANALYZE, and most tables here are empty now and then. For an empty table
 * all plans cost the same: it may scan the whole table for each row of another one, or use an index that has the column in a
 * later place. The plan is cached, and the table fills: with 50,000 waiting tasks, analyzed while none was claimed,
 * settlements took seconds.
 *
 * So a subquery ends with OFFSET 0: it is planned separately, and executed for each row. If a table has several indexes with
 * the same columns, ORDER BY selects one.
 */

/** A condition; or the columns of an index in its order, each with its value, if other indexes have some of them too. */
export type By = string | Record<string, string>;

interface LookUpOptions {
  columns?: string;
  /** An alias of the table. */
  as?: string;
  /** Another condition on the row. */
  also?: string;
  lock?: "FOR UPDATE NOWAIT" | "FOR UPDATE SKIP LOCKED";
}

/** A subquery with the rows. */
export function rowsBy(
  table: string,
  by: By,
  { columns = "*", as = table, also, lock }: LookUpOptions = {},
): string {
  const more = also === undefined ? "" : ` AND ${also}`;
  const where = typeof by === "string" ? `${by}${more}` : inOrder(as, by, more);
  return `(SELECT ${columns} FROM dibs.${table} AS ${as} WHERE ${where} OFFSET 0${lock ? ` ${lock}` : ""})`;
}

/** BETWEEN for the last column: PostgreSQL drops an ORDER BY on a column that equals a constant. */
function inOrder(table: string, by: Record<string, string>, more: string): string {
  const columns = Object.entries(by).map(([column, value]) => [`${table}.${column}`, value] as const);
  const [last, value] = columns.pop()!;
  const before = columns.map(([column, each]) => `${column} = ${each} AND `).join("");
  return `${before}${last} BETWEEN ${value} AND ${value}${more} ORDER BY ${last}`;
}

/** A join that looks rows of a table up for each row before it. */
export function lookUp(table: string, by: By, options: LookUpOptions = {}): string {
  return `LATERAL ${rowsBy(table, by, options)} AS ${options.as ?? table}`;
}

/**
 * A join with the task of each row. A statement that locks or writes keeps a copy of the joined columns, payloads too: name
 * the `columns` there.
 */
export const TASK_OF = (rows: string, columns = "*"): string =>
  lookUp("task", `task.seq = ${rows}.task`, { columns });

/**
 * The rows of a list, each with the ctid (`place`) of its row in a table. A statement that writes to these rows must repeat
 * every condition: a row that another transaction changed meanwhile is then checked as it is now.
 */
export function withPlaces(table: string, list: string, by: By, also?: string): string {
  const options = { columns: `${table}.ctid AS place`, ...(also !== undefined && { also }) };
  return `(SELECT * FROM ${list} CROSS JOIN LATERAL ${rowsBy(table, by, options)} AS found)`;
}

/** Deletes the rows that belong to a list. */
export const deleteEach = (table: string, list: string, by: By, also?: string): string => `
  DELETE FROM dibs.${table} WHERE ctid = ANY (ARRAY (SELECT place FROM ${withPlaces(table, list, by, also)} AS old))`;

/** WHERE clause of a statement that writes to a row, which forces the index. */
export function isRowBy(table: string, by: Record<string, string>, also?: string): string {
  return `${table}.ctid = ANY (ARRAY ${rowsBy(table, by, { columns: "ctid", ...(also !== undefined && { also }) })})`;
}

/** Tables with one row per task that have other indexes with the column `task`. */
type OfTask = "ended" | "dead" | "verifying" | "run_part" | "child";

/** A subquery with the rows of a list of tasks. */
export const rowsOf = (table: OfTask, tasks: string, columns = "*"): string =>
  `(SELECT ${table}.* FROM unnest(${tasks}) AS wanted (task) CROSS JOIN ${lookUp(table, { task: "wanted.task" }, { columns })})`;

/** As isRowBy, for the rows of a list of tasks. */
export const isAmong = (table: OfTask, tasks: string): string =>
  `${table}.ctid = ANY (ARRAY ${rowsOf(table, tasks, "ctid")})`;
