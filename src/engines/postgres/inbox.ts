import type { Op } from "../../engine/engine.ts";
import { type Newcomer, takePlaces } from "./add.ts";
import { correctCost } from "./gates.ts";
import { freeGroups } from "./free-groups.ts";
import type { Lane } from "./lanes.ts";
import { freeGroup } from "./line.ts";
import { RANK } from "./rank.ts";
import type { Tx } from "./tx.ts";

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
}

/** Rows that one batch takes up: the next one goes on. */
const MOST = 1_000;

const takeUpRows = (passing: string): string => `
  WITH taken AS (
    DELETE FROM dibs.inbox WHERE n = ANY (ARRAY (
      SELECT n FROM dibs.inbox ORDER BY n LIMIT $1 FOR UPDATE ${passing}))
    RETURNING n, task, due, queue, group_key, cost, spent, started_at)
  SELECT taken.n, task.seq, taken.due, taken.queue, coalesce(task.group_key, taken.group_key) AS group_key,
    task.created_at, ${RANK} AS rank, coalesce(task.cost, taken.cost) AS cost, taken.spent, taken.started_at,
    task.expires_at, task.idempotency_key
  FROM taken LEFT JOIN dibs.task ON task.seq = taken.task ORDER BY taken.n`;
/** What others are about to take up is left to them. */
const TAKE_UP = takeUpRows("SKIP LOCKED");
/** Waits for them: what is added to a group comes behind what was committed to it before. */
const TAKE_UP_ALL = takeUpRows("");
const DELETE_TASKS = `DELETE FROM dibs.task WHERE seq = ANY ($1::int8[])`;

/**
 * Takes up what transactions of others have committed, before anything else of a batch: whoever was told of such a
 * commit finds what it brought. Within them nothing was locked that others need, such as a group's row.
 */
export async function takeUp(tx: Tx, ops: readonly Op[]): Promise<void> {
  if (ops.some(addsToGroup)) await takeUpAll(tx);
  else await takeUpSome(tx, TAKE_UP);
}

export async function takeUpAll(tx: Tx): Promise<void> {
  while ((await takeUpSome(tx, TAKE_UP_ALL)) === MOST);
}

function addsToGroup(op: Op): boolean {
  return op.verb === "add" && op.tasks.some(({ groupKey }) => groupKey !== undefined);
}

/** Answers how many. */
async function takeUpSome(tx: Tx, sql: string): Promise<number> {
  const rows = await tx.take<InboxRow>(sql, MOST);
  const known = rows.filter((row) => tx.queueIfAny(row.queue));
  const lost = rows.filter((row) => !tx.queueIfAny(row.queue)).flatMap((row) => row.seq ?? []);
  // Their queue was dropped before they came.
  if (lost.length > 0) tx.send(DELETE_TASKS, lost);
  await lineUpAdded(
    tx,
    known.filter((row) => row.seq !== null),
  );
  const free: Lane[] = [];
  for (const row of known) {
    if (row.seq !== null) continue;
    const queue = tx.queueOf(row.queue);
    const { group_key: key, cost, spent, started_at: startedAt } = row;
    if (spent !== null) await correctCost(tx, queue, key, { cost: cost ?? 1, spent, startedAt: startedAt! });
    else if (queue.limited) await freeGroup(tx, queue, key!);
    else free.push({ queue: queue.id, groupKey: key! });
  }
  await freeGroups(tx, free);
  return rows.length;
}

async function lineUpAdded(tx: Tx, rows: InboxRow[]): Promise<void> {
  const newcomers = rows.map((row): Newcomer => {
    const queue = tx.queueOf(row.queue);
    tx.flow(queue).added++;
    const taskId = tx.id(row.created_at, row.seq!);
    tx.announce({ type: "task.added", at: tx.now, queue: queue.name, taskId });
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
    };
  });
  if (newcomers.length > 0) await takePlaces(tx, newcomers);
}
