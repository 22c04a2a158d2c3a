import { inlineBytes, sizeOfClaimed } from "../../../core/answer/answer-size.ts";
import { type Body, FIRST_RANK } from "../../../core/task/task.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import type { ClaimRequest } from "../../../engine/claim-request.ts";
import { chunks, sized } from "../statements/chunks.ts";
import { GROUPED, OPTIONS } from "../statements/special.ts";
import { COUNTED, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** Reads the first tasks of a line that a worker may claim. Claims call it, and take.ts moves the tasks that it read. */

/** The tasks of the line that a worker may claim. */
export interface Line {
  /** In the order of the line. */
  rows: LineRow[];
  /** The tables of those rows that are not in `ready`. */
  otherTables: ReadonlyMap<LineRow, "ready_elsewhere" | "ready_sticky">;
  /** Some tasks are for other workers only. */
  passed: boolean;
}

/** A task in the line: an array, which is read faster than an object. */
export type LineRow = [
  rank: number,
  pos: number,
  task: number,
  failures: number,
  /** What it has beyond its data, as bits: see special.ts. */
  special: number,
  createdAt: number,
  /** The size of a large payload. It is read only for tasks that are claimed. */
  data: Body | number,
];

interface ElsewhereRow {
  rank: number;
  pos: number;
  task: number;
  failures: number;
  special: number;
  avoid: string;
}

// SQLite knows a value's size without reading the value.
const DATA = `iif(octet_length(task.data) > ?, octet_length(task.data), task.data) AS data`;

/** The statements for all tasks of the line, or for urgent ones. */
function readsOf(where: string) {
  return {
    // Every column costs time, so columns that few tasks have are read for those only. CROSS JOIN fixes the
    // order: the line first, then its tasks by number.
    ready: `
  SELECT rank, ready.pos, task, failures, special, task.created_at, ${DATA}
  FROM ready CROSS JOIN task ON task.seq = ready.task
  WHERE ready.queue = ?${where} ORDER BY rank, ready.pos LIMIT 0 + ?`,
    ready_elsewhere: `
  SELECT rank, pos, task, failures, special, avoid FROM ready_elsewhere WHERE queue = ?${where} ORDER BY rank, pos LIMIT 0 + ?`,
    ready_sticky: `
  SELECT rank, ready_sticky.pos, task, failures, special, task.created_at, ${DATA}
  FROM ready_sticky CROSS JOIN task ON task.seq = ready_sticky.task
  WHERE ready_sticky.queue = ? AND ready_sticky.session = ?${where} ORDER BY rank, ready_sticky.pos LIMIT 0 + ?`,
    others: [
      `SELECT 1 FROM ready_sticky WHERE queue = ? AND session < ?${where} LIMIT 1`,
      `SELECT 1 FROM ready_sticky WHERE queue = ? AND session > ?${where} LIMIT 1`,
    ],
  };
}

const ALL = readsOf("");
const URGENT = readsOf(` AND rank < ${FIRST_RANK}`);
const STORED_TASK = `SELECT created_at, ${DATA} FROM task WHERE seq = ?`;
const LARGE = `SELECT data FROM task WHERE seq = ?`;

/** Sessions are numbered from 1. */
const NO_SESSION = 0;

const NONE = { allowed: [], passed: false };

/**
 * The first tasks of a queue's line that this worker may claim, at most `most`. `hasElsewhere`: false if the
 * retry-elsewhere line is known to be empty.
 */
export function readLine(
  tx: Tx,
  queue: Queue,
  { worker, session = NO_SESSION, max }: ClaimRequest,
  most: number,
  { urgentOnly = false, hasElsewhere = true } = {},
): Line {
  const sql = urgentOnly ? URGENT : ALL;
  const { allowed, passed } = hasElsewhere ? readElsewhere(tx, queue, worker, sql.ready_elsewhere) : NONE;
  const atOnce = inlineBytes(max);
  const ready = tx.rows<LineRow>(sql.ready, atOnce, queue.id, most);
  const otherTables = new Map<LineRow, "ready_elsewhere" | "ready_sticky">();
  for (const row of allowed) otherTables.set(lineRowFrom(tx, row, atOnce), "ready_elsewhere");
  let hasOthers = false;
  if (queue.lanes === COUNTED) {
    for (const row of tx.rows<LineRow>(sql.ready_sticky, atOnce, queue.id, session, most))
      otherTables.set(row, "ready_sticky");
    hasOthers = sql.others.some((other) => tx.get(other, queue.id, session) !== undefined);
  }
  const rows =
    otherTables.size === 0 ? ready : [...ready, ...otherTables.keys()].sort(inOrder).slice(0, most);
  return { rows, otherTables, passed: passed || hasOthers };
}

/** The first tasks of the retry-elsewhere line that this worker may claim, and whether there are others. */
export function readElsewhere(
  tx: Tx,
  queue: Queue,
  worker: string,
  sql = ALL.ready_elsewhere,
): { allowed: ElsewhereRow[]; passed: boolean } {
  const rows = tx.all<ElsewhereRow>(sql, queue.id, BOUNDS.retryScan);
  const allowed = rows.filter((row) => !(JSON.parse(row.avoid) as string[]).includes(worker));
  return { allowed, passed: allowed.length < rows.length };
}

function lineRowFrom(tx: Tx, { rank, pos, task, failures, special }: ElsewhereRow, atOnce: number): LineRow {
  const found = tx.get<{ created_at: number; data: Body | number }>(STORED_TASK, atOnce, task)!;
  const { created_at: createdAt, data } = found;
  return [rank, pos, task, failures, special, createdAt, data];
}

/** The task's payload, which is read now if it is large. */
export function dataOf(tx: Tx, [, , seq, , , , data]: LineRow): Body {
  return typeof data === "number" ? tx.get<{ data: Body }>(LARGE, seq)!.data : data;
}

/** How much of the answer size the task takes. */
export function sizeOf([, , , , , , data]: LineRow, { headers }: Special): number {
  return sizeOfClaimed(typeof data === "number" ? data : data.length, headers === null ? 0 : headers.length);
}

function inOrder(a: LineRow, b: LineRow): number {
  return a[0] - b[0] || a[1] - b[1];
}

export interface Special {
  group_key: string | null;
  expires_at: number | null;
  max_attempts: number | null;
  content_type: string | null;
  headers: string | null;
  cost: number | null;
}

const SPECIALS = sized(
  `SELECT seq, group_key, expires_at, max_attempts, content_type, headers, cost
   FROM (VALUES `,
  () => `(?)`,
  `) CROSS JOIN task ON task.seq = column1`,
);
const PLAIN: Special = {
  group_key: null,
  expires_at: null,
  max_attempts: null,
  content_type: null,
  headers: null,
  cost: null,
};

/** What each task of these rows has beyond a payload. */
export function specialsOf(tx: Tx, rows: readonly LineRow[]): Special[] {
  const found = new Map<number, Special>();
  const special = rows.filter((row) => row[4] & (OPTIONS | GROUPED)).map((row) => row[2]);
  if (special.length === 0) return rows.map(() => PLAIN);
  for (const chunk of chunks(special)) {
    for (const row of tx.all<Special & { seq: number }>(SPECIALS(chunk.length), ...chunk))
      found.set(row.seq, row);
  }
  return rows.map((row) => found.get(row[2]) ?? PLAIN);
}
