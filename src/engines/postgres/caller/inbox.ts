import type { Addition } from "../../../core/task.ts";
import type { Op } from "../../../engine/engine.ts";
import { reportAdded } from "../../../engine/follow-up-adds.ts";
import { type NewTaskRow, takePlaces } from "../verbs/add.ts";
import { correctCost } from "../limits/gates.ts";
import { freeGroups } from "../line/free-groups.ts";
import type { Lane } from "../limits/lanes.ts";
import { freeGroup } from "../line/line.ts";
import { rowsBy, TASK_OF } from "../statements/look-up.ts";
import { DROP_NOTES_FLOOR, notes } from "../line/inbox-floor.ts";
import { RANK } from "../statements/rank.ts";
import { cancelRest, losePartsOf } from "../flows/runs.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * Processes the inbox entries that callers' transactions have left. batch/store.ts calls it when the header reports
 * entries.
 */

interface InboxRow {
  n: number;
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

/** Rows that one batch takes up: the next one goes on. */
const MOST = 1_000;

/** The first of those that are meant. */
const first = (meant: string): string =>
  `SELECT n FROM (${notes("n, queue")}) AS notes WHERE ${meant} ORDER BY n LIMIT $1`;
const WITH_TASK = `LEFT JOIN ${TASK_OF("inbox")} ON true`;
const GROUP = `coalesce(task.group_key, inbox.group_key)`;

const takeUpRows = (mine: string): string => `
  WITH mine AS MATERIALIZED (${mine}), taken AS (
    DELETE FROM dibs.inbox WHERE ctid = ANY (ARRAY (SELECT place FROM mine))
    RETURNING n, task, due, queue, group_key, cost, spent, started_at)
  SELECT taken.n, task.seq, taken.due, taken.queue, coalesce(task.group_key, taken.group_key) AS group_key,
    task.created_at, ${RANK} AS rank, coalesce(task.cost, taken.cost) AS cost, taken.spent, taken.started_at,
    task.expires_at, task.idempotency_key,
    EXISTS ${rowsBy("run_part", { task: "taken.task" }, { columns: "1" })} AS of_run
  FROM taken LEFT JOIN ${TASK_OF("taken")} ON true ORDER BY taken.n`;
/** What others are about to take up is left to them, and with it what came to one of its groups after it. */
const TAKE_UP = takeUpRows(`
  WITH free AS MATERIALIZED (
    SELECT ctid AS place, n, task, queue, group_key FROM dibs.inbox
    WHERE n = ANY (ARRAY (${first("queue <> ALL ($2::int4[])")}))
    ORDER BY n FOR UPDATE SKIP LOCKED
  ), passed AS MATERIALIZED (
    SELECT inbox.n, inbox.queue, ${GROUP} AS group_key FROM (${notes("n, task, queue, group_key")}) AS inbox ${WITH_TASK}
    WHERE n < (SELECT max(n) FROM free) AND n NOT IN (SELECT n FROM free)
  )
  SELECT inbox.place FROM free AS inbox ${WITH_TASK}
  WHERE NOT EXISTS (
    SELECT 1 FROM passed WHERE passed.queue = inbox.queue AND passed.group_key = ${GROUP} AND passed.n < inbox.n)`);
/** Waits for them: what is added to a group comes behind what was committed to it before. */
const TAKE_UP_ALL = takeUpRows(
  `SELECT ctid AS place FROM dibs.inbox WHERE n = ANY (ARRAY (${first("queue = ANY ($2::int4[])")})) ORDER BY n FOR UPDATE`,
);
/** The same whatever floor there is: it is found by nothing else. */
const TAKE_UP_FROM_FRONT = takeUpRows(
  `SELECT ctid AS place FROM dibs.inbox WHERE n = ANY (ARRAY (
    SELECT n FROM dibs.inbox WHERE queue = ANY ($2::int4[]) ORDER BY n LIMIT $1)) ORDER BY n FOR UPDATE`,
);
const QUEUES = `SELECT DISTINCT queue FROM (${notes("queue")}) AS notes`;
const DELETE_TASKS = `DELETE FROM dibs.task WHERE seq = ANY ($1::int8[])`;

/** With notes in hand a batch waits for locks no longer than about as long as one takes. */
const LONGEST_WAIT_MS = 100;

/**
 * Takes up what transactions of others have committed, before anything else of a batch: whoever was told of such a
 * commit finds what it brought. Within them nothing was locked that others need, such as a group's row.
 *
 * Until this batch commits nobody else has it. Should that have to wait for a transaction of a caller's, which may have an
 * idempotency key or a claim for as long as it likes, the batch is undone, and the notes are taken up by themselves
 * (store.ts).
 */
export async function takeUp(tx: Tx, ops: readonly Op[]): Promise<void> {
  // A sign of life waits for nobody.
  if (ops.every(({ verb }) => verb === "heartbeat")) return;
  if (!tx.isAlone) tx.waitNoLongerThan(LONGEST_WAIT_MS);
  const grouped = ops.flatMap(additions).filter(({ groupKey }) => groupKey !== undefined);
  if (grouped.length > 0) await takeUpAll(tx, await queuesOf(tx, grouped));
  await takeUpSome(tx, TAKE_UP, tx.queues.hasLimits ? await busyQueues(tx) : []);
}

/** All that has come to these queues. */
export async function takeUpAll(tx: Tx, queues: readonly number[]): Promise<void> {
  while ((await takeUpSome(tx, TAKE_UP_ALL, queues)) === MOST);
}

/**
 * The same of tasks that are known to be there, and of which no note is found: it is below where everybody looks, as it must
 * not be (floors.ts). Nobody else would find it, nor others that are there.
 */
export async function takeUpFromFront(tx: Tx, queues: readonly number[]): Promise<void> {
  while ((await takeUpSome(tx, TAKE_UP_FROM_FRONT, queues)) === MOST);
  tx.send(DROP_NOTES_FLOOR);
}

/** What it adds, as far as it says so itself. */
function additions(op: Op): readonly Addition[] {
  if (op.verb === "add") return op.tasks;
  if (op.verb === "publish") return [op.message];
  if (op.verb === "put") return op.adds ?? [];
  return op.verb === "settle" && op.settlement.kind === "done" ? (op.settlement.adds ?? []) : [];
}

/** Where what is published will go shows only later: it may be any of those that something has come to. */
async function queuesOf(tx: Tx, added: readonly Addition[]): Promise<number[]> {
  const names = added.flatMap((each) => ("queue" in each ? each.queue : []));
  const anyones = names.length < added.length ? await withNotes(tx) : [];
  return [...new Set([...names.flatMap((name) => tx.queues.named(name)?.id ?? []), ...anyones])];
}

async function withNotes(tx: Tx): Promise<number[]> {
  return (await tx.all<{ queue: number }>(QUEUES)).map(({ queue }) => queue);
}

/** Those with limits whose gates are not to be had: whoever has one may be waiting for somebody who waits for us. */
async function busyQueues(tx: Tx): Promise<number[]> {
  const there = new Set(await withNotes(tx));
  const busy: number[] = [];
  for (const queue of tx.queues.all) {
    if (!queue.limited) continue;
    const isThere = there.has(queue.id);
    if (isThere && (await tx.limits.tryToHold(queue))) continue;
    busy.push(queue.id);
    if (isThere) tx.leftInboxEntries = true;
  }
  return busy;
}

/** Answers how many. */
async function takeUpSome(tx: Tx, sql: string, queues: readonly number[]): Promise<number> {
  const rows = await tx.take<InboxRow>(sql, MOST, queues);
  // One may be newer than what this batch has read of the queues.
  await tx.queues.learn(rows.map(({ queue }) => queue));
  const known = rows.filter((row) => tx.queues.ifAny(row.queue));
  const lost = rows.filter((row) => !tx.queues.ifAny(row.queue)).flatMap((row) => row.seq ?? []);
  // Their queue was dropped before they came, and the runs that they begin are over.
  if (lost.length > 0) {
    await cancelRest(tx, await losePartsOf(tx, lost));
    tx.send(DELETE_TASKS, lost);
  }
  await lineUpAdded(
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

async function lineUpAdded(tx: Tx, rows: InboxRow[]): Promise<void> {
  const newcomers = rows.map((row): NewTaskRow => {
    const queue = tx.queues.of(row.queue);
    tx.counters.flow(queue).added++;
    reportAdded(tx.hint, [{ queue: queue.name, existing: false }]);
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
  if (newcomers.length > 0) await takePlaces(tx, newcomers);
}
