import { sizeOfRow } from "../../../core/answer/answer-size.ts";
import { decideDeclaration } from "../../../core/queue/declaration.ts";
import { resolvePolicy } from "../../../core/queue/policy.ts";
import type { Paged, QueueSummary } from "../../../core/answer/page.ts";
import { nameAfter, pageOf } from "../../../engine/cursor.ts";
import type { Declared, Verbs } from "../../../engine/engine.ts";
import { hintLine } from "../limits/gates.ts";
import { findBySeq } from "../line/find-task.ts";
import { adoptPolicy } from "../limits/review.ts";
import { notify } from "../line/notices.ts";
import { remove } from "../line/remove.ts";
import { figuresOf } from "./stats.ts";
import { workersByQueue } from "./sessions.ts";
import { unsubscribeQueue } from "../transaction/topics.ts";
import { COUNTED, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** Verbs of whole queues: `declare`, `pause`, `queues`, `purge`, `drop`. */

export function declare(
  tx: Tx,
  { queue: name, policy, force = false, create = false }: Verbs["declare"]["in"],
): Declared {
  const isNew = tx.queues.named(name) === undefined;
  const queue = tx.queues.getOrMake(name);
  const { outcome, ...decided } = decideDeclaration(queue, isNew, policy, { force, create });
  if (!decided.applies) return { policy: queue.policy, outcome };
  const before = queue.policy;
  queue.named = decided.named;
  queue.policy = resolvePolicy(decided.named);
  queue.declared = decided.declared;
  tx.queues.store(queue);
  if (decided.changes) {
    tx.announce({ type: "queue.updated", at: tx.now, queue: name });
    adoptPolicy(tx, queue, before);
  }
  return { policy: queue.policy, outcome };
}

export function pause(tx: Tx, { queue: name, paused }: Verbs["pause"]["in"]): { changed: boolean } {
  const queue = tx.queues.getOrMake(name);
  if (queue.paused === paused) return { changed: false };
  queue.paused = paused;
  tx.queues.store(queue);
  tx.announce({ type: paused ? "queue.paused" : "queue.resumed", at: tx.now, queue: name });
  if (!paused) hintLine(tx, queue);
  return { changed: true };
}

const NAMES = `SELECT name FROM queue WHERE name > ? ORDER BY name LIMIT 0 + ?`;

export function queues(
  tx: Tx,
  { queue: only, stats = false, after, limit }: Verbs["queues"]["in"],
): Paged<QueueSummary> {
  const start = nameAfter(after);
  const names = only === undefined ? tx.all<{ name: string }>(NAMES, start, limit + 1) : [{ name: only }];
  const workers = stats ? workersByQueue(tx) : undefined;
  const found = names
    .flatMap(({ name }) => tx.queues.named(name) ?? [])
    .map((queue) => summaryOf(tx, queue, workers));
  return pageOf(found, limit, { sizeOf: sizeOfRow, keyOf: ({ name }) => [name] });
}

function summaryOf(tx: Tx, queue: Queue, workers: Map<string, number> | undefined): QueueSummary {
  const { name, policy, paused, createdAt } = queue;
  const stats = workers && { ...figuresOf(tx, queue), workers: workers.get(name) ?? 0 };
  return { name, policy, paused, createdAt, ...(stats && { stats }) };
}

// Those behind a head go first: removing a head would only make the next one ready.
const PENDING = [
  `SELECT task FROM waiting WHERE queue = ? AND pos <= ? ORDER BY group_key, pos LIMIT 0 + ?`,
  `SELECT task FROM scheduled WHERE queue = ? AND pos <= ? ORDER BY pos LIMIT 0 + ?`,
] as const;
const PENDING_READY = `
  SELECT task, rank, pos FROM ready WHERE queue = ? AND pos <= ?
  UNION ALL
  SELECT task, rank, pos FROM ready_elsewhere WHERE queue = ? AND pos <= ?
  ORDER BY rank, pos LIMIT 0 + ?`;
const cameBefore = (table: "ready" | "ready_elsewhere" | "ready_sticky"): string => `
    SELECT task, rank, ${table}.pos AS pos FROM ${table} CROSS JOIN task ON task.seq = ${table}.task
    WHERE ${table}.queue = :queue AND coalesce(task.pos, task.seq) <= :last`;
// If groups rotate, the position in the line does not tell when a task was added.
const PENDING_TURNS = `
  SELECT task FROM (${cameBefore("ready")}
    UNION ALL ${cameBefore("ready_elsewhere")}
    UNION ALL ${cameBefore("ready_sticky")})
  ORDER BY rank, pos LIMIT 0 + :limit`;

export function purge(
  tx: Tx,
  { queue: name, upTo, limit }: Verbs["purge"]["in"],
): { removed: number; upTo: number; more: boolean } {
  const last = upTo ?? tx.seq;
  const queue = tx.queues.named(name);
  if (!queue) return { removed: 0, upTo: last, more: false };
  const doomed = nextToPurge(tx, queue, last, limit + 1);
  const more = doomed.length > limit;
  if (more) doomed.pop();
  for (const seq of doomed) remove(tx, findBySeq(tx, seq)!);
  if (doomed.length > 0) tx.batch.hint.ended = true;
  if (!more) tx.announce({ type: "queue.purged", at: tx.now, queue: name });
  return { removed: doomed.length, upTo: last, more };
}

function nextToPurge(tx: Tx, { id, lanes }: Queue, last: number, limit: number): number[] {
  const rows: { task: number }[] = [];
  for (const sql of PENDING) rows.push(...tx.all<{ task: number }>(sql, id, last, limit - rows.length));
  const left = limit - rows.length;
  rows.push(
    ...(lanes === COUNTED
      ? tx.allNamed<{ task: number }>(PENDING_TURNS, { queue: id, last, limit: left })
      : tx.all<{ task: number }>(PENDING_READY, id, last, id, last, left)),
  );
  return rows.map((row) => row.task);
}

/** Tasks of any queue that one call of drop reads. Tasks have no index by queue: every add would pay for it. */
const LOOK = 50_000;

const TASKS_FROM = `
  SELECT seq FROM (SELECT seq, queue FROM task WHERE seq > ? ORDER BY seq LIMIT 0 + ?) WHERE queue = ? LIMIT 0 + ?`;
const LOOKED_UP_TO = `SELECT max(seq) AS seq, count(*) AS count FROM (SELECT seq FROM task WHERE seq > ? ORDER BY seq LIMIT 0 + ?)`;
const DELETE_QUEUE = [
  `DELETE FROM queue WHERE id = ?`,
  `DELETE FROM depth WHERE queue = ?`,
  `DELETE FROM flow WHERE queue = ?`,
  `DELETE FROM idempotency WHERE queue = ?`,
  `DELETE FROM lane WHERE queue = ?`,
  `DELETE FROM wake WHERE queue = ?`,
  `DELETE FROM gate WHERE queue = ?`,
] as const;

export function drop(
  tx: Tx,
  { queue: name, limit }: Verbs["drop"]["in"],
): { removed: number; more: boolean } {
  const queue = tx.queues.named(name);
  if (!queue) return { removed: 0, more: false };
  unsubscribeQueue(tx, queue);
  const { doomed, more } = nextToDrop(tx, queue, limit);
  for (const seq of doomed) {
    const task = findBySeq(tx, seq)!;
    if (task.place.state === "claimed") notify(tx, "lost", task.place.held);
    remove(tx, task);
  }
  if (doomed.length > 0) tx.batch.hint.ended = true;
  if (!more) {
    tx.counters.flush();
    for (const sql of DELETE_QUEUE) tx.run(sql, queue.id);
    tx.dropping.delete(queue.id);
    tx.prunedLanes.delete(queue.id);
    tx.queues.remove(queue);
    tx.announce({ type: "queue.deleted", at: tx.now, queue: name });
  }
  return { removed: doomed.length, more };
}

/** The first tasks of the queue, in the order of arrival. It continues where the last call stopped. */
function nextToDrop(tx: Tx, queue: Queue, limit: number): { doomed: number[]; more: boolean } {
  const from = tx.dropping.get(queue.id) ?? 0;
  const doomed = tx.all<{ seq: number }>(TASKS_FROM, from, LOOK, queue.id, limit + 1).map((row) => row.seq);
  if (doomed.length > limit) {
    doomed.pop();
    return { doomed, more: true };
  }
  const looked = tx.get<{ seq: number | null; count: number }>(LOOKED_UP_TO, from, LOOK)!;
  if (looked.count === LOOK) tx.dropping.set(queue.id, looked.seq!);
  return { doomed, more: looked.count === LOOK };
}
