import type { NewTask } from "../../../core/task/task.ts";
import type { Connection } from "../connection/connection.ts";
import { type Lane, laneColumns, laneFrom, laneName, type LaneRow, LISTED_LANES } from "../limits/lanes.ts";
import { insertRows, type Row } from "../statements/insert-rows.ts";
import { deleteEach, isRowBy, lookUp, TASK_OF } from "../statements/look-up.ts";
import { RANK } from "../statements/rank.ts";
import { numbers } from "../statements/text.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";
import { avoidedBy } from "./elsewhere.ts";

/**
 * The only code that writes to the three tables of a line: `ready` for every worker, `ready_elsewhere` for workers that
 * have not failed the task (retry elsewhere), `ready_sticky` for the worker to which a group sticks. A test reads all
 * statements of the engine and finds no other writer.
 *
 * These functions also lower the line's floor (floors.ts), count the tasks and hint at them, so that no caller can
 * forget it. Two do not: `returnToHead` undoes a claim that no other transaction has seen, and for
 * `enterLineAsImported` the import counts the tasks and removes the floors.
 */

/** The tables of a line. */
export type Line = "ready" | "ready_elsewhere" | "ready_sticky";

/** Parameters of the statements that find a row of a line by its position. */
const LINE_KEY = { queue: "$1", rank: "$2", pos: "$3::int8" };

/** A task that enters the line. */
export interface ReadyTask {
  queue: Queue;
  rank: number;
  pos: number;
  seq: number;
  failures: number;
  special: boolean;
  /** Its group; only in a queue with limits, where rows of the line are found by their group. */
  laneKey?: string | null;
  /** The session to which its group sticks, if that session is alive. */
  sticksTo?: number | null;
}

const insertInto = (table: Line, more = "", types = ""): string => `
  INSERT INTO dibs.${table} (queue, rank, pos, task, failures, special, group_key${more})
  SELECT * FROM unnest($1::int4[], $2::int2[], $3::int8[], $4::int8[], $5::int2[], $6::bool[], $7::text[]${types})`;
const INSERT: Record<Line, string> = {
  ready: insertInto("ready"),
  ready_elsewhere: insertInto("ready_elsewhere", ", until, avoid", ", $8::int8[], $9::text[]"),
  ready_sticky: insertInto("ready_sticky", ", session", ", $8::int8[]"),
};

type Columns = [string, string, string, string, string, string, (string | null)[] | null];

function columnsOf(tasks: readonly ReadyTask[]): Columns {
  const keys = tasks.map(({ laneKey = null }) => laneKey);
  return [
    numbers(tasks.map(({ queue }) => queue.id)),
    numbers(tasks.map(({ rank }) => rank)),
    numbers(tasks.map(({ pos }) => pos)),
    numbers(tasks.map(({ seq }) => seq)),
    numbers(tasks.map(({ failures }) => failures)),
    `{${tasks.map(({ special }) => special).join(",")}}`,
    keys.every((key) => key === null) ? null : keys,
  ];
}

/** Tasks of one or more queues enter their lines. A failed task is first offered to workers that have not failed it. */
export async function enterLine(tx: Tx, tasks: readonly ReadyTask[]): Promise<void> {
  const avoiding: { task: ReadyTask; until: number; avoid: string[] }[] = [];
  const sticky: ReadyTask[] = [];
  const open: ReadyTask[] = [];
  for (const task of tasks) {
    const { queue, rank, pos, sticksTo = null } = task;
    const avoid = await avoidedBy(tx, task);
    if (avoid) avoiding.push({ task, until: tx.now + queue.policy.elsewhere, avoid });
    else if (sticksTo !== null) sticky.push(task);
    else open.push(task);
    // The sticky line has no floor.
    if (avoid || sticksTo === null) tx.floors.lower(queue, rank, pos);
  }
  if (open.length > 0) tx.send(INSERT.ready, ...columnsOf(open));
  if (sticky.length > 0)
    tx.send(INSERT.ready_sticky, ...columnsOf(sticky), numbers(sticky.map(({ sticksTo }) => sticksTo!)));
  if (avoiding.length > 0) {
    tx.send(
      INSERT.ready_elsewhere,
      ...columnsOf(avoiding.map(({ task }) => task)),
      numbers(avoiding.map(({ until }) => until)),
      avoiding.map(({ avoid }) => JSON.stringify(avoid)),
    );
    tx.floors.lowerTime("ready_elsewhere", Math.min(...avoiding.map(({ until }) => until)));
  }
  noteEntered(tx, tasks);
}

function noteEntered(tx: Tx, tasks: readonly { queue: Queue }[]): void {
  for (const [queue, { length }] of Map.groupBy(tasks, (task) => task.queue)) {
    tx.counters.count(queue, "ready", length);
    tx.batch.hintReady(queue, length);
  }
}

/**
 * New tasks enter their lines: tasks that this transaction adds, or that it found in the inbox. `isLast`: the task got
 * its position in this transaction. So it is behind all others of its rank, and the floor need not be lowered for it,
 * unless its rank is below 0 (a high priority).
 */
export function enterLineAsNew(tx: Tx, tasks: readonly (ReadyTask & { isLast: boolean })[]): void {
  if (tasks.length === 0) return;
  tx.put(INSERT.ready, ...columnsOf(tasks));
  for (const { queue, rank, pos, isLast } of tasks)
    if (rank < 0 || !isLast) tx.floors.lower(queue, rank, pos);
  noteEntered(tx, tasks);
}

/** Part of the statement that adds plain tasks (verbs/add-fast.ts). Its caller calls `noteAdded` afterwards. */
export const ENTER_AS_ADDED = `
    INSERT INTO dibs.ready (queue, rank, pos, task, failures, special)
    SELECT queue, -priority, seq, seq, 0, false FROM added`;

/** Lowers the floors, counts and hints for tasks that entered their lines by ENTER_AS_ADDED. */
export function noteAdded(tx: Tx, tasks: readonly NewTask[], seqOf: (index: number) => number): void {
  for (const [index, { queue, priority = 0 }] of tasks.entries())
    if (priority > 0) tx.floors.lower(tx.queues.named(queue)!, -priority, seqOf(index));
  for (const [name, { length }] of Map.groupBy(tasks, ({ queue }) => queue)) {
    const queue = tx.queues.named(name)!;
    tx.counters.count(queue, "ready", length);
    tx.counters.flow(queue).added += length;
    tx.batch.hintReady(queue, length);
  }
}

interface PromotedRow extends LaneRow {
  rank: number;
  pos: number;
  task: number;
  failures: number;
}

const FIRST_OF_LANES = `
    SELECT first.place
    FROM (${LISTED_LANES}) AS wanted
    CROSS JOIN LATERAL (
      SELECT ctid AS place FROM dibs.waiting
      WHERE waiting.queue = wanted.queue AND waiting.group_key = wanted.group_key COLLATE "C"
      ORDER BY pos LIMIT 1 FOR UPDATE NOWAIT) AS first`;
// Waiting tasks with failures (they stepped aside, or were imported) may have to avoid workers, so they do not enter
// `ready` here: enterLine() decides.
const PROMOTE_FIRST = `
  WITH next AS MATERIALIZED (${FIRST_OF_LANES}
  ), promoted AS (
    DELETE FROM dibs.waiting WHERE ctid = ANY (ARRAY (SELECT place FROM next))
    RETURNING queue, group_key, rank, pos, task, failures
  ), entered AS (
    INSERT INTO dibs.ready (queue, rank, pos, task, failures, special)
    SELECT queue, rank, pos, task, 0, true FROM promoted WHERE failures = 0)
  SELECT queue, group_key, rank, pos, task, failures FROM promoted`;

/** The first waiting task of each group enters the line, in queues without limits. Returns the groups without one. */
export async function promoteFirst(tx: Tx, lanes: readonly Lane[]): Promise<Lane[]> {
  const values = laneColumns(lanes);
  const rows = await tx.lock<PromotedRow>(PROMOTE_FIRST, values, { sql: FIRST_OF_LANES, values });
  if (rows.length > 0) tx.noteWrite();
  const promoted = new Set(rows.map((row) => laneName(laneFrom(row))));
  const tasks = rows.map(({ task: seq, rank, pos, failures, ...row }) => {
    return { queue: tx.queues.of(row.queue), rank, pos, seq, failures, special: true };
  });
  for (const { queue } of tasks) tx.counters.count(queue, "waiting", -1);
  const [failed, entered] = [
    tasks.filter(({ failures }) => failures > 0),
    tasks.filter(({ failures }) => failures === 0),
  ];
  for (const { queue, rank, pos } of entered) tx.floors.lower(queue, rank, pos);
  noteEntered(tx, entered);
  if (failed.length > 0) await enterLine(tx, failed);
  return lanes.filter((lane) => !promoted.has(laneName(lane)));
}

// They get back the positions that they had. No other transaction has seen that they left, so the floor is still below
// them.
const RETURN_TO_HEAD = `
  WITH back AS (
    DELETE FROM dibs.claim WHERE ctid = ANY (ARRAY (
      SELECT claim.ctid FROM unnest($2::int8[]) AS wanted (task)
      CROSS JOIN ${lookUp("claim", "claim.task = wanted.task", { columns: "ctid" })}))
    RETURNING task, failures, special)
  INSERT INTO dibs.ready (queue, rank, pos, task, failures, special)
  SELECT $1::int4, ${RANK}, coalesce(task.pos, task.seq), back.task, back.failures, back.special
  FROM back CROSS JOIN ${TASK_OF("back", "seq, pos, urgent, priority")}`;

/**
 * Returns tasks that this claim has taken from the head of the line, because they exceed its answer size. They are not
 * counted, because they were not counted as claimed.
 */
export function returnToHead(tx: Tx, queue: Queue, seqs: readonly number[]): void {
  tx.send(RETURN_TO_HEAD, queue.id, numbers(seqs));
}

interface EnteredRow {
  queue: number;
  rank: number;
  pos: number;
}

/** Ready tasks, counted before, that every worker may claim from now on. */
async function noteOpened(tx: Tx, rows: readonly EnteredRow[]): Promise<void> {
  await tx.queues.load(rows.map(({ queue }) => queue));
  for (const row of rows) {
    const queue = tx.queues.ifAny(row.queue);
    if (!queue) continue;
    tx.batch.hintReady(queue);
    tx.floors.lower(queue, row.rank, row.pos);
  }
}

const ELSEWHERE_TO_READY = `
  WITH opened AS (
    ${deleteEach(
      "ready_elsewhere",
      `unnest($1::int4[], $2::int2[], $3::int8[]) AS wanted (queue, rank, pos)`,
      `ready_elsewhere.queue = wanted.queue AND ready_elsewhere.rank = wanted.rank AND ready_elsewhere.pos = wanted.pos`,
    )}
    RETURNING queue, rank, pos, task, failures, special, group_key)
  INSERT INTO dibs.ready (queue, rank, pos, task, failures, special, group_key) SELECT * FROM opened`;

/** No other worker took these failed tasks in time: from now on any worker may. The caller has locked their rows. */
export async function endRetryElsewhere(tx: Tx, rows: readonly EnteredRow[]): Promise<void> {
  if (rows.length === 0) return;
  tx.send(
    ELSEWHERE_TO_READY,
    rows.map((row) => row.queue),
    rows.map((row) => row.rank),
    rows.map((row) => row.pos),
  );
  await noteOpened(tx, rows);
}

const STICKY_TO_READY = `
  WITH opened AS (
    DELETE FROM dibs.ready_sticky WHERE session = $1 RETURNING queue, rank, pos, task, failures, special, group_key)
  INSERT INTO dibs.ready (queue, rank, pos, task, failures, special, group_key) SELECT * FROM opened
  RETURNING queue, rank, pos`;

/** The worker to which groups stuck is gone: any worker may claim their tasks. */
export async function releaseSticky(tx: Tx, session: number): Promise<void> {
  if (!tx.queues.hasLimits) return;
  await noteOpened(tx, await tx.take<EnteredRow>(STICKY_TO_READY, session));
}

const RENUMBER_STICKY = `UPDATE dibs.ready_sticky SET session = $1 WHERE session = $2`;

/** A worker continues under a new session: the tasks that stick to it follow. */
export function renumberSticky(tx: Tx, from: number, to: number): void {
  tx.send(RENUMBER_STICKY, to, from);
}

const nameGroups = (table: Line): string => `
  UPDATE dibs.${table} SET group_key = named.group_key
  FROM (
    SELECT line.ctid AS place, task.group_key FROM dibs.${table} AS line CROSS JOIN ${TASK_OF("line", "group_key")}
    WHERE line.queue = $1 AND line.special AND line.group_key IS NULL AND task.group_key IS NOT NULL) AS named
  WHERE ${table}.ctid = named.place`;
const NAME_GROUPS = [nameGroups("ready"), nameGroups("ready_elsewhere")];

/** The queue has limits from now on: writes the group of each task into its row of the line. */
export function nameGroupsInLine(tx: Tx, queue: Queue): void {
  for (const sql of NAME_GROUPS) tx.send(sql, queue.id);
}

// The row is replaced, not updated: a claim that has found it deletes it by its ctid. An update would give the row
// another ctid, and the task would be in the line and claimed at the same time.
const markStepped = (table: Line, more = ""): string => `
  WITH old AS (
    DELETE FROM dibs.${table} WHERE ${isRowBy(table, LINE_KEY, "NOT special")} RETURNING *)
  INSERT INTO dibs.${table} (queue, rank, pos, task, failures, special, group_key${more})
  SELECT queue, rank, pos, task, failures, true, group_key${more} FROM old`;
const MARK_STEPPED: Record<Line, string> = {
  ready: markStepped("ready"),
  ready_elsewhere: markStepped("ready_elsewhere", ", until, avoid"),
  ready_sticky: markStepped("ready_sticky", ", session"),
};

// Replaces the row instead of updating it, for the same reason as `markStepped`.
const changeRank = (table: Line, more = ""): string => `
  WITH old AS (DELETE FROM dibs.${table} WHERE ${isRowBy(table, LINE_KEY)} RETURNING *)
  INSERT INTO dibs.${table} (queue, rank, pos, task, failures, special, group_key${more})
  SELECT queue, $4::int2, pos, task, failures, special, group_key${more} FROM old`;
const CHANGE_RANK: Record<Line, string> = {
  ready: changeRank("ready"),
  ready_elsewhere: changeRank("ready_elsewhere", ", until, avoid"),
  ready_sticky: changeRank("ready_sticky", ", session"),
};

/**
 * The priority of a task in the line was changed. Its position stays, and orders it among the tasks of its new rank. The
 * caller has locked its row.
 */
export function changeRankInLine(
  tx: Tx,
  table: Line,
  { queue, rank, pos }: EnteredAt,
  newRank: number,
): void {
  tx.send(CHANGE_RANK[table], queue.id, rank, pos, newRank);
  if (table !== "ready_sticky") tx.floors.lower(queue, newRank, pos);
  tx.batch.hintReady(queue);
}

/** A signal was stored for a task in the line. The caller has locked its row. */
export function markSteppedInLine(tx: Tx, table: Line, { queue, rank, pos }: EnteredAt): void {
  tx.send(MARK_STEPPED[table], queue.id, rank, pos);
  // Claims have skipped the row while it was locked, so they must be retried.
  tx.batch.hintReady(queue);
}

type EnteredAt = Pick<ReadyTask, "queue" | "rank" | "pos">;

/**
 * Imported tasks enter their lines at the positions that they had. The import counts them, like tasks of all other states,
 * and removes all floors at its end.
 */
export async function enterLineAsImported(
  link: Connection,
  line: { ready: Row[]; elsewhere: Row[] },
): Promise<void> {
  await insertRows(link, "ready", line.ready);
  await insertRows(link, "ready_elsewhere", line.elsewhere);
}

const PROMOTE_IMPORTED = `
  WITH gone AS (
    DELETE FROM dibs.waiting WHERE queue = $1 AND group_key = $2 AND pos = $3 RETURNING pos, task, queue, rank, failures
  ), ready AS (
    INSERT INTO dibs.ready (pos, task, queue, rank, failures, special) SELECT pos, task, queue, rank, failures, true FROM gone
  ), lane AS (
    INSERT INTO dibs.lane (queue, group_key) VALUES ($1, $2)
  )
  UPDATE dibs.depth SET ready = ready + 1, waiting = waiting - 1 WHERE queue = $1`;

/** The first task of an imported group without a head. */
export async function promoteImported(
  link: Connection,
  { queue, groupKey, pos }: Lane & { pos: number },
): Promise<void> {
  await link.all(PROMOTE_IMPORTED, queue, groupKey, pos);
}
