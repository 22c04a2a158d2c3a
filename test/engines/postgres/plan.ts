import type { Connection } from "../../../src/engines/postgres/connection/connection.ts";

/** What plans of statements are read by. */

/** Tables that stay small whatever is waiting, so that walking over them costs nothing that grows. */
const SMALL = new Set([
  "store", // one row
  "incarnation", // one row
  "seq", // a sequence
  "migration",
  "queue",
  "gate", // a row a queue with limits
  "depth", // a row a queue
  "flow", // a row a queue and second, of the last minutes
  "floor", // a few rows a queue
  "inbox_floor", // one row
  "subscription",
  "document",
  "session", // a row a worker
  "serving", // a row a worker and queue
  "listener", // a row for each who follows the events
]);

export interface Node {
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  "Index Cond"?: string;
  Filter?: string;
  "Subplan Name"?: string;
  /** Of a verbose plan. */
  Output?: string[];
  Plans?: Node[];
}

/** By name: the columns that it is ordered by. */
export type Indexes = Map<string, string[]>;

export async function readTables(link: Connection): Promise<string[]> {
  const sql = `SELECT tablename AS name FROM pg_tables WHERE schemaname = $1`;
  return (await link.all<{ name: string }>(sql, link.schema)).map(({ name }) => name);
}

export async function readIndexes(link: Connection): Promise<Indexes> {
  const rows = await link.all<{ name: string; columns: string[] }>(
    `SELECT relname AS name, ARRAY (
       SELECT attname::text FROM pg_attribute WHERE attrelid = indexrelid ORDER BY attnum) AS columns
     FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE relnamespace = $1::regnamespace`,
    link.schema,
  );
  return new Map(rows.map(({ name, columns }) => [name, columns]));
}

/** Each scan of a table that grows, with those above it in the same part of the plan: its root first. */
function* scansIn(node: Node, above: Node[] = []): Generator<[scan: Node, above: Node[]]> {
  const over = node["Subplan Name"] === undefined ? above : [];
  const table = node["Relation Name"];
  const isScan = node["Node Type"].endsWith("Scan") && node["Node Type"] !== "Tid Scan";
  if (isScan && table !== undefined && !SMALL.has(table)) yield [node, over];
  for (const child of node.Plans ?? []) yield* scansIn(child, [...over, node]);
}

/** The columns of its index that it looks by. */
function columnsOf({ "Index Name": index, "Index Cond": condition = "" }: Node, indexes: Indexes): string[] {
  return (indexes.get(index!) ?? []).filter((column) => new RegExp(`\\b${column}\\b`).test(condition));
}

/** What it reads that it may not need, if anything. */
export function costsOf(root: Node, indexes: Indexes): { table: string; cost: string }[] {
  return [...scansIn(root)].flatMap(([scan, above]) => {
    const { "Node Type": type, "Relation Name": table, "Index Name": index } = scan;
    const costly = (what: string) => [{ table: table!, cost: `${table}: ${what}` }];
    if (index === undefined || !type.startsWith("Index")) return costly(type);
    const columns = columnsOf(scan, indexes);
    const isLimited = above.some((node) => node["Node Type"] === "Limit");
    // The head of an index is as good as a place in it.
    if (columns[0] !== indexes.get(index)![0]) {
      return isLimited && scan.Filter === undefined ? [] : costly(`walks over ${index}`);
    }
    const looksForOne = scan["Subplan Name"] !== undefined || isLimited;
    const isWholeQueue = columns.length === 1 && columns[0] === "queue" && !looksForOne;
    return isWholeQueue ? costly("all of a queue") : [];
  });
}

/** Of what is a query by itself a statement that locks or writes to rows keeps whole rows, however long: of a verbose plan. */
export function copiesPayloads({ Output: columns = [], Plans: parts = [], ...node }: Node): boolean {
  const isWhole = node["Node Type"] === "Subquery Scan" && columns.some((column) => column.endsWith(".*"));
  const isLong = (column: string) => /\.(data|bytes|result|result_bytes)$/.test(column);
  return (isWhole && parts.some((part) => part.Output?.some(isLong))) || parts.some(copiesPayloads);
}

/** By which indexes, and which columns of them. */
export function wayOf(root: Node, indexes: Indexes): string {
  const steps = [...scansIn(root)].map(
    ([scan]) => `${scan["Index Name"] ?? scan["Node Type"]} (${columnsOf(scan, indexes).join(", ")})`,
  );
  return steps.toSorted().join(", ");
}
