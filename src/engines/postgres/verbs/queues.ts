import { sizeOfRow } from "../../../core/answer/answer-size.ts";
import { decideDeclaration } from "../../../core/queue/declaration.ts";
import { type NamedPolicy, resolvePolicy } from "../../../core/queue/policy.ts";
import type { Paged, QueueSummary } from "../../../core/answer/page.ts";
import { nameAfter, pageOf } from "../../../engine/cursor.ts";
import type { Declared, DeclareMode, Verbs } from "../../../engine/engine.ts";
import { allAnswered } from "../statements/all-answered.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { TASK_OF } from "../statements/look-up.ts";
import { type Found, findMany, isPending } from "../line/find-task.ts";
import { remove } from "../line/remove.ts";
import { adoptPolicy } from "../limits/review.ts";
import { notify } from "../line/notices.ts";
import { processInboxOf } from "../line/inbox.ts";
import { takeOut, takePending, takeTogether } from "../line/take-out.ts";
import { figuresOf } from "./stats.ts";
import { unsubscribeQueue } from "../transaction/topics.ts";
import type { Tx } from "../transaction/tx.ts";

/** Verbs of whole queues: `declare`, `pause`, `queues`, `purge`, `drop`. */

const UPDATE_QUEUE = `
  UPDATE dibs.queue SET named = $1, declared = $2, paused = $3, revision = $4 WHERE id = $5`;

/**
 * The queue as it is now, with a revision for the change that follows. Until the commit no other transaction changes a
 * queue.
 */
async function toBeChanged(tx: Tx, name: string): Promise<{ queue: Queue; revision: number }> {
  await tx.queues.getOrMake(name);
  const revision = await tx.queues.nextRevision();
  return { queue: (await tx.queues.fresh(name)) ?? (await tx.queues.getOrMake(name)), revision };
}

function store(tx: Tx, { id, named, declared, paused }: Queue, revision: number): void {
  tx.send(UPDATE_QUEUE, JSON.stringify(named), declared, paused, revision, id);
}

/** Whether a declaration changes its queue, as far as this copy of the queue tells. */
export function changesPolicy(queue: Queue | undefined, policy: NamedPolicy, mode: DeclareMode): boolean {
  return decideDeclaration(queue ?? NEW_QUEUE, queue === undefined, policy, mode).applies;
}

const NEW_QUEUE = { named: {}, declared: null };

export async function declare(
  tx: Tx,
  { queue: name, policy, force = false, create = false }: Verbs["declare"]["in"],
): Promise<Declared> {
  const { queue: known, isNew } = await tx.queues.ensure(name);
  const expected = decideDeclaration(known, isNew, policy, { force, create });
  if (!expected.applies) return { policy: known.policy, outcome: expected.outcome };
  const { queue, revision } = await toBeChanged(tx, name);
  const { outcome, ...decided } = decideDeclaration(queue, isNew, policy, { force });
  if (!decided.applies) return { policy: queue.policy, outcome };
  const before = queue.policy;
  queue.named = decided.named;
  queue.policy = resolvePolicy(decided.named);
  queue.declared = decided.declared;
  store(tx, queue, revision);
  if (decided.changes) {
    tx.events.announce({ type: "queue.updated", at: tx.now, queue: name });
    await adoptPolicy(tx, queue, before);
  }
  return { policy: queue.policy, outcome };
}

export async function pause(
  tx: Tx,
  { queue: name, paused }: Verbs["pause"]["in"],
): Promise<{ changed: boolean }> {
  const { queue, revision } = await toBeChanged(tx, name);
  if (queue.paused === paused) return { changed: false };
  queue.paused = paused;
  store(tx, queue, revision);
  tx.events.announce({ type: paused ? "queue.paused" : "queue.resumed", at: tx.now, queue: name });
  const { ready } = await tx.counters.depth(queue);
  if (!paused && ready > 0) tx.batch.hintReady(queue, ready);
  return { changed: true };
}

export async function queues(
  tx: Tx,
  { queue: only, stats = false, after, limit }: Verbs["queues"]["in"],
): Promise<Paged<QueueSummary>> {
  const start = nameAfter(after);
  const known = only === undefined ? undefined : tx.queues.named(only);
  const rows = only === undefined ? await tx.queues.page(start, limit + 1) : known ? [known] : [];
  const figures = stats ? await figuresOf(tx, rows) : undefined;
  const found = rows.map(({ id, name, policy, paused, createdAt }) => ({
    ...{ name, policy, paused, createdAt },
    ...(figures && { stats: figures.get(id)! }),
  }));
  return pageOf(found, limit, { sizeOf: sizeOfRow, keyOf: ({ name }) => [name] });
}

// Waiting tasks go first: to remove a head would promote the next one.
const PENDING = [
  `SELECT task FROM dibs.waiting WHERE queue = $1 AND pos <= $2 ORDER BY group_key, pos LIMIT $3`,
  `SELECT task FROM dibs.scheduled WHERE queue = $1 AND pos <= $2 ORDER BY pos LIMIT $3`,
  `
  SELECT task FROM (
    (SELECT task, rank, pos FROM dibs.ready WHERE queue = $1 AND pos <= $2 ORDER BY rank, pos LIMIT $3)
    UNION ALL
    (SELECT task, rank, pos FROM dibs.ready_elsewhere WHERE queue = $1 AND pos <= $2 ORDER BY rank, pos LIMIT $3)
  ) AS line ORDER BY rank, pos LIMIT $3`,
] as const;
// If groups rotate, the position in the line differs from the task's own.
const LINE_OF = (table: string): string => `
  SELECT ${table}.task, rank, ${table}.pos FROM dibs.${table} CROSS JOIN ${TASK_OF(table)}
  WHERE ${table}.queue = $1 AND coalesce(task.pos, task.seq) <= $2`;
const PENDING_WITH_LIMITS = [
  PENDING[0],
  PENDING[1],
  `
  SELECT task FROM (${["ready", "ready_elsewhere", "ready_sticky"].map(LINE_OF).join(" UNION ALL ")}) AS line ORDER BY rank, pos LIMIT $3`,
] as const;

export async function purge(
  tx: Tx,
  { queue: name, upTo, limit }: Verbs["purge"]["in"],
): Promise<{ removed: number; upTo: number; more: boolean }> {
  const last = upTo ?? (await tx.lastSeq());
  const queue = tx.queues.named(name);
  if (!queue) return { removed: 0, upTo: last, more: false };
  const doomed = await nextToPurge(tx, queue, last, limit + 1);
  const more = doomed.length > limit;
  if (more) doomed.pop();
  await tx.runs.hold(doomed);
  const pending = (await findMany(tx, doomed)).filter(isPending);
  // With limits, a removal may promote another task, so they go one by one.
  const isApart = ({ queue: of, groupKey }: Found): boolean => of.limited && groupKey !== null;
  const { taken, missed } = await takeTogether(
    tx,
    pending.filter((task) => !isApart(task)),
  );
  await remove(tx, taken);
  let removed = taken.length;
  // They have moved meanwhile: the end of another task may have promoted one.
  for (const found of [...missed, ...pending.filter(isApart)]) {
    const task = await takePending(tx, found);
    if (!task) continue;
    await remove(tx, [task]);
    removed++;
  }
  if (removed > 0) tx.batch.hint.ended = true;
  tx.floors.loweredFloors.add(name);
  if (!more) tx.events.announce({ type: "queue.purged", at: tx.now, queue: name });
  return { removed, upTo: last, more };
}

async function nextToPurge(tx: Tx, { id, limited }: Queue, last: number, limit: number): Promise<number[]> {
  const doomed: number[] = [];
  for (const sql of limited ? PENDING_WITH_LIMITS : PENDING) {
    const rows = await tx.all<{ task: number }>(sql, id, last, limit - doomed.length);
    doomed.push(...rows.map((row) => row.task));
  }
  return doomed;
}

/** Tasks of any queue that one call of drop reads. Tasks have no index by queue: every add would pay for it. */
const LOOK = 50_000;

const TASKS_FROM = `
  SELECT seq FROM (SELECT seq, queue FROM dibs.task WHERE seq > $1 ORDER BY seq LIMIT $2) AS part
  WHERE queue = $3 LIMIT $4`;
const LOOKED_UP_TO = `
  SELECT max(seq) AS seq, count(*)::int4 AS count
  FROM (SELECT seq FROM dibs.task WHERE seq > $1 ORDER BY seq LIMIT $2) AS part`;
const DELETE_QUEUE = [
  `DELETE FROM dibs.queue WHERE id = $1`,
  `DELETE FROM dibs.depth WHERE queue = $1`,
  `DELETE FROM dibs.delta WHERE queue = $1`,
  `DELETE FROM dibs.flow WHERE queue = $1`,
  `DELETE FROM dibs.idempotency WHERE queue = $1`,
  `DELETE FROM dibs.lane WHERE queue = $1`,
  `DELETE FROM dibs.gate WHERE queue = $1`,
  `DELETE FROM dibs.floor WHERE line = $1`,
] as const;

export async function drop(
  tx: Tx,
  { queue: name, limit }: Verbs["drop"]["in"],
): Promise<{ removed: number; more: boolean }> {
  const queue = tx.queues.named(name);
  if (!queue) return { removed: 0, more: false };
  await unsubscribeQueue(tx, queue);
  let next = await nextToDrop(tx, queue, limit);
  // Other batches may be adding tasks, so the last call is exclusive.
  if (!next.more) {
    tx.needExclusive();
    await unsubscribeQueue(tx, queue);
    await processInboxOf(tx, [queue.id]);
    next = await nextToDrop(tx, queue, limit);
    if (!next.more) next = await lastToDrop(tx, queue, next.doomed, limit);
  }
  const { doomed, more } = next;
  await tx.runs.hold(doomed);
  const found = await findMany(tx, doomed);
  // To remove the head of a group promotes the next task, so they go one by one.
  const { taken, missed } = await takeTogether(
    tx,
    found.filter((task) => task.groupKey === null),
  );
  await remove(tx, taken);
  const grouped = found.filter((task) => task.groupKey !== null);
  for (const { seq } of [...missed, ...grouped]) await dropTask(tx, seq);
  if (doomed.length > 0) tx.batch.hint.ended = true;
  if (!more) {
    tx.counters.flush();
    tx.limits.reread();
    for (const sql of DELETE_QUEUE) tx.send(sql, queue.id);
    tx.progress.dropping.delete(queue.id);
    tx.queues.remove(queue);
    tx.events.announce({ type: "queue.deleted", at: tx.now, queue: name });
  }
  return { removed: doomed.length, more };
}

// Claims are few and have no index by queue: every claim would pay for it.
const LEFT = [
  "ready",
  "ready_elsewhere",
  "ready_sticky",
  "scheduled",
  "waiting",
  "claim",
  "verifying",
  "dead",
  "ended",
].map((table) => `SELECT task FROM dibs.${table} WHERE queue = $1 LIMIT $2`);

/**
 * Includes tasks of callers' transactions below the position that was reached: their numbers are as old as the
 * transactions.
 */
async function lastToDrop(
  tx: Tx,
  queue: Queue,
  known: readonly number[],
  limit: number,
): Promise<{ doomed: number[]; more: boolean }> {
  const left = await allAnswered(LEFT.map((sql) => tx.all<{ task: number }>(sql, queue.id, limit)));
  const doomed = new Set([...known, ...left.flat().map(({ task }) => task)]);
  return { doomed: [...doomed].slice(0, limit), more: doomed.size > limit };
}

/** A claimed task, or one that has moved, wherever it is now. */
async function dropTask(tx: Tx, seq: number): Promise<void> {
  for (;;) {
    const [task] = await findMany(tx, [seq]);
    if (!task) return;
    if (task.place.state === "claimed") notify(tx, "lost", task.place.held);
    if (await takeOut(tx, task)) return remove(tx, [task]);
  }
}

/** The first tasks of the queue, in the order of arrival. It continues where the last call stopped. */
async function nextToDrop(tx: Tx, queue: Queue, limit: number): Promise<{ doomed: number[]; more: boolean }> {
  const from = tx.progress.dropping.get(queue.id) ?? 0;
  const rows = await tx.all<{ seq: number }>(TASKS_FROM, from, LOOK, queue.id, limit + 1);
  const doomed = rows.map((row) => row.seq);
  if (doomed.length > limit) {
    doomed.pop();
    return { doomed, more: true };
  }
  const looked = (await tx.get<{ seq: number | null; count: number }>(LOOKED_UP_TO, from, LOOK))!;
  if (looked.count === LOOK) tx.progress.dropping.set(queue.id, looked.seq!);
  return { doomed, more: looked.count === LOOK };
}
