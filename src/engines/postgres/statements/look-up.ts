/**
 * Parts of statements that look rows up, written such that they can be carried out in no other way.
 *
 * The planner goes by what a table was like when it was last vacuumed or analyzed, and most tables here are empty then, now and
 * again. Of an empty one it takes any way to be as good as any other: it walks over the whole of it for each row of another, or
 * over an index that has the column somewhere. The plan is kept, and the table fills: with 50,000 tasks that waited, analyzed
 * while none was claimed, settlements took seconds.
 *
 * So what OFFSET 0 ends is planned by itself, and looked up for one row after the other. And where a table has several indexes
 * with the same columns, the order of the rows says which one is meant.
 */

/** What is said of the row; or the columns of an index, in its order, each with its value: where others have some of them too. */
type By = string | Record<string, string>;

interface Words {
  columns?: string;
  /** Where it is known by another name than its table's. */
  as?: string;
  /** More that must hold of the row. */
  also?: string;
  lock?: "FOR UPDATE" | "FOR UPDATE SKIP LOCKED";
}

/** The rows themselves. */
export function rowsBy(table: string, by: By, { columns = "*", as = table, also, lock }: Words = {}): string {
  const more = also === undefined ? "" : ` AND ${also}`;
  const where = typeof by === "string" ? `${by}${more}` : inOrder(as, by, more);
  return `(SELECT ${columns} FROM dibs.${table} AS ${as} WHERE ${where} OFFSET 0${lock ? ` ${lock}` : ""})`;
}

/** The last column is said to be between two values, which are one: what is equal to something has no order to ask for. */
function inOrder(table: string, by: Record<string, string>, more: string): string {
  const columns = Object.entries(by).map(([column, value]) => [`${table}.${column}`, value] as const);
  const [last, value] = columns.pop()!;
  const before = columns.map(([column, each]) => `${column} = ${each} AND `).join("");
  return `${before}${last} BETWEEN ${value} AND ${value}${more} ORDER BY ${last}`;
}

/** For each row before it the rows of a table. To be joined. */
export function lookUp(table: string, by: By, words: Words = {}): string {
  return `LATERAL ${rowsBy(table, by, words)} AS ${words.as ?? table}`;
}

/**
 * For each of some rows the task that it is of. A statement that locks or writes to something keeps a copy of what it is joined
 * with, payloads and all: there, name the `columns`.
 */
export const TASK_OF = (rows: string, columns = "*"): string =>
  lookUp("task", `task.seq = ${rows}.task`, { columns });

/**
 * Where the rows of a table stand that belong to those of a list: `place`, beside the list's columns. Whoever writes to the rows
 * there says of them all that must hold: one that others change meanwhile is met as it is then, or passed over.
 */
export function withPlaces(table: string, list: string, by: By, also?: string): string {
  const words = { columns: `${table}.ctid AS place`, ...(also !== undefined && { also }) };
  return `(SELECT * FROM ${list} CROSS JOIN LATERAL ${rowsBy(table, by, words)} AS found)`;
}

/** Takes them away. */
export const deleteEach = (table: string, list: string, by: By, also?: string): string => `
  DELETE FROM dibs.${table} WHERE ctid = ANY (ARRAY (SELECT place FROM ${withPlaces(table, list, by, also)} AS old))`;

/** To be said of a table in a statement that writes to it, where that goes by an index: it is the row that is looked up. */
export function isRowBy(table: string, by: Record<string, string>, also?: string): string {
  return `${table}.ctid = ANY (ARRAY ${rowsBy(table, by, { columns: "ctid", ...(also !== undefined && { also }) })})`;
}

/** Tables in which a task has one row, that have other indexes with the task in them. */
type OfTask = "ended" | "dead" | "verifying" | "run_part";

/** The rows of a list of tasks. */
export const rowsOf = (table: OfTask, tasks: string, columns = "*"): string =>
  `(SELECT ${table}.* FROM unnest(${tasks}) AS wanted (task) CROSS JOIN ${lookUp(table, { task: "wanted.task" }, { columns })})`;

/** The same as isRowBy, of such a list. */
export const isAmong = (table: OfTask, tasks: string): string =>
  `${table}.ctid = ANY (ARRAY ${rowsOf(table, tasks, "ctid")})`;
