import type { Addition } from "../../../core/task/task.ts";
import type { Op } from "../../../engine/engine.ts";
import { reportAdded } from "../../../engine/follow-up-adds.ts";
import { endRun, losePartsOf } from "../flows/runs.ts";
import { correctCost } from "../limits/gates.ts";
import type { Lane } from "../limits/lanes.ts";
import { rowsBy, TASK_OF } from "../statements/look-up.ts";
import { RANK } from "../statements/rank.ts";
import type { Tx } from "../transaction/tx.ts";
import { enterFirstState, type NewTaskRow } from "./first-state.ts";
import { freeGroups } from "./free-groups.ts";
import { DROP_INBOX_FLOOR, inboxEntries } from "./inbox-floor.ts";
import { freeGroup } from "./line.ts";

/**
 * Processes the inbox entries that callers' transactions have left: tasks to put into their first state, and groups to
 * free. batch/store.ts calls it when the header reports entries; find-task.ts when a task has no state yet.
 */

interface InboxRow {
  n: number;
  /** Null: the entry frees a group, or corrects a cost. */
  seq: number | null;
  due: number | null;
  queue: number;
  group_key: string | null;
  created_at: number;
  rank: number;
  cost: number | null;
  spent: number | null;
  started_at: number | null;
  expires_at: number | null;
  idempotency_key: string | null;
  of_run: boolean;
}

/** Entries that one statement processes. */
const MOST = 1_000;

const first = (condition: string): string =>
  `SELECT n FROM (${inboxEntries("n, queue")}) AS entry WHERE ${condition} ORDER BY n LIMIT $1`;
const WITH_TASK = `LEFT JOIN ${TASK_OF("inbox")} ON true`;
const GROUP = `coalesce(task.group_key, inbox.group_key)`;

const takeEntries = (mine: string): string => `
  WITH mine AS MATERIALIZED (${mine}), taken AS (
    DELETE FROM dibs.inbox WHERE ctid = ANY (ARRAY (SELECT place FROM mine))
    RETURNING n, task, due, queue, group_key, cost, spent, started_at)
  SELECT taken.n, task.seq, taken.due, taken.queue, coalesce(task.group_key, taken.group_key) AS group_key,
    task.created_at, ${RANK} AS rank, coalesce(task.cost, taken.cost) AS cost, taken.spent, taken.started_at,
    task.expires_at, task.idempotency_key,
    EXISTS ${rowsBy("run_part", { task: "taken.task" }, { columns: "1" })} AS of_run
  FROM taken LEFT JOIN ${TASK_OF("taken")} ON true ORDER BY taken.n`;
/** Skips entries that another batch has locked, and later entries of the same group: a group keeps its order. */
const FREE = `
  WITH free AS MATERIALIZED (
    SELECT ctid AS place, n, task, queue, group_key FROM dibs.inbox
    WHERE n = ANY (ARRAY (${first("queue <> ALL ($2::int4[])")}))
    ORDER BY n FOR UPDATE SKIP LOCKED
  ), passed AS MATERIALIZED (
    SELECT inbox.n, inbox.queue, ${GROUP} AS group_key FROM (${inboxEntries("n, task, queue, group_key")}) AS inbox ${WITH_TASK}
    WHERE n < (SELECT max(n) FROM free) AND n NOT IN (SELECT n FROM free)
  )
  SELECT inbox.place FROM free AS inbox ${WITH_TASK}
  WHERE NOT EXISTS (
    SELECT 1 FROM passed WHERE passed.queue = inbox.queue AND passed.group_key = ${GROUP} AND passed.n < inbox.n)`;
const listed = (entries: string): string =>
  `SELECT ctid AS place FROM dibs.inbox WHERE n = ANY (ARRAY (${entries})) ORDER BY n FOR UPDATE NOWAIT`;
/** All entries, those too that another batch has locked. */
const ALL = listed(first("queue = ANY ($2::int4[])"));
/** As ALL, and ignores the inbox floor. */
const FROM_FRONT = listed(`SELECT n FROM dibs.inbox WHERE queue = ANY ($2::int4[]) ORDER BY n LIMIT $1`);
const TAKE = new Map([FREE, ALL, FROM_FRONT].map((entries) => [entries, takeEntries(entries)]));
const QUEUES = `SELECT DISTINCT queue FROM (${inboxEntries("queue")}) AS entry`;
const DELETE_TASKS = `DELETE FROM dibs.task WHERE seq = ANY ($1::int8[])`;

/** A batch that holds entries waits for a lock about as long as a batch takes. */
const LONGEST_WAIT_MS = 100;

/**
 * Processes entries before the operations of a batch, so that a process that was notified of the caller's commit finds
 * what it added. The caller's transaction has locked nothing that others need, such as a group's row.
 *
 * No other batch sees these entries until this one commits. If this batch has to wait for a caller's transaction, which
 * may hold an idempotency key or a claim for as long as it likes, it is rolled back, and the entries are processed in a
 * transaction of their own (batch/store.ts).
 */
export async function processInbox(tx: Tx, ops: readonly Op[]): Promise<void> {
  // A heartbeat must not wait for locks.
  if (ops.every(({ verb }) => verb === "heartbeat")) return;
  if (!tx.isExclusive) tx.waitNoLongerThan(LONGEST_WAIT_MS);
  const grouped = ops.flatMap(additions).filter(({ groupKey }) => groupKey !== undefined);
  // What is added to a group comes behind what was committed to it before.
  if (grouped.length > 0) await processInboxOf(tx, await queuesOf(tx, grouped));
  await processSome(tx, FREE, tx.queues.hasLimits ? await busyQueues(tx) : []);
}

/** All entries of these queues. */
export async function processInboxOf(tx: Tx, queues: readonly number[]): Promise<void> {
  while ((await processSome(tx, ALL, queues)) === MOST);
}

/**
 * All entries of these queues, below the inbox floor too. For tasks that exist and have no entry above the floor, which
 * must not happen (floors.ts). It removes the floor, so that other entries below it are found again.
 */
export async function processInboxFromFront(tx: Tx, queues: readonly number[]): Promise<void> {
  while ((await processSome(tx, FROM_FRONT, queues)) === MOST);
  tx.send(DROP_INBOX_FLOOR);
}

/** What an operation adds, as far as the operation names it. */
function additions(op: Op): readonly Addition[] {
  if (op.verb === "add") return op.tasks;
  if (op.verb === "spawn") return op.children.map(({ task }) => task);
  if (op.verb === "publish") return [op.message];
  if (op.verb === "put") return op.adds ?? [];
  return op.verb === "settle" && op.settlement.kind === "done" ? (op.settlement.adds ?? []) : [];
}

/** The queues of a published message are not known yet: every queue that has entries counts. */
async function queuesOf(tx: Tx, added: readonly Addition[]): Promise<number[]> {
  const names = added.flatMap((each) => ("queue" in each ? each.queue : []));
  const others = names.length < added.length ? await queuesWithEntries(tx) : [];
  return [...new Set([...names.flatMap((name) => tx.queues.named(name)?.id ?? []), ...others])];
}

async function queuesWithEntries(tx: Tx): Promise<number[]> {
  return (await tx.all<{ queue: number }>(QUEUES)).map(({ queue }) => queue);
}

/** Queues with limits whose gate another transaction holds: that one may wait for a lock of this transaction. */
async function busyQueues(tx: Tx): Promise<number[]> {
  const withEntries = new Set(await queuesWithEntries(tx));
  const busy: number[] = [];
  for (const queue of tx.queues.all) {
    if (!queue.limited) continue;
    const hasEntries = withEntries.has(queue.id);
    if (hasEntries && (await tx.limits.tryToHold(queue))) continue;
    busy.push(queue.id);
    if (hasEntries) tx.batch.noteInboxLeft();
  }
  return busy;
}

/** Returns the number of entries. */
async function processSome(tx: Tx, entries: string, queues: readonly number[]): Promise<number> {
  const values = [MOST, queues];
  const rows = (await tx.attempt(TAKE.get(entries)!, values, { sql: entries, values })).rows as InboxRow[];
  if (rows.length > 0) tx.noteWrite();
  // A queue may have been made after this batch read the queues.
  await tx.queues.load(rows.map(({ queue }) => queue));
  const known = rows.filter((row) => tx.queues.ifAny(row.queue));
  const lost = rows.filter((row) => !tx.queues.ifAny(row.queue)).flatMap((row) => row.seq ?? []);
  if (lost.length > 0) await removeLost(tx, lost);
  await enterAdded(
    tx,
    known.filter((row) => row.seq !== null),
  );
  const free: Lane[] = [];
  for (const row of known) {
    if (row.seq !== null) continue;
    const queue = tx.queues.of(row.queue);
    const { group_key: key, cost, spent, started_at: startedAt } = row;
    if (spent !== null) await correctCost(tx, queue, key, { cost: cost ?? 1, spent, startedAt: startedAt! });
    else if (queue.limited) await freeGroup(tx, queue, key!);
    else free.push({ queue: queue.id, groupKey: key! });
  }
  await freeGroups(tx, free);
  return rows.length;
}

/** Tasks whose queue was dropped before their transaction committed. The runs that they begin are over. */
async function removeLost(tx: Tx, seqs: number[]): Promise<void> {
  for (const run of await losePartsOf(tx, seqs)) await endRun(tx, run, "cancelled", null);
  tx.send(DELETE_TASKS, seqs);
}

async function enterAdded(tx: Tx, rows: InboxRow[]): Promise<void> {
  const tasks = rows.map((row): NewTaskRow => {
    const queue = tx.queues.of(row.queue);
    tx.counters.flow(queue).added++;
    reportAdded(tx.batch.hint, [{ queue: queue.name, existing: false }]);
    const taskId = tx.id(row.created_at, row.seq!);
    tx.events.announce({ type: "task.added", at: tx.now, queue: queue.name, taskId });
    return {
      index: -1,
      rank: row.rank,
      cost: row.cost,
      seq: row.seq!,
      pos: row.seq!,
      due: row.due,
      queue,
      groupKey: row.group_key,
      key: row.idempotency_key,
      expiresAt: row.expires_at,
      ...(row.of_run && { stepped: true }),
    };
  });
  if (tasks.length > 0) await enterFirstState(tx, tasks);
}
