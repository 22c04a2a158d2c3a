import type { Verbs } from "../../../engine/engine.ts";
import {
  checkBytes,
  checkDepth,
  checkPayloads,
  countNew,
  storedContentType,
  storedHeaders,
} from "../../../core/task/add-rules.ts";
import { isChild } from "../../../core/handler/children.ts";
import { type AddedTask, type EndState, type NewTask, rankOf } from "../../../core/task/task.ts";
import { holdsKey } from "../../../core/task/unique.ts";
import type { RunTask } from "../../../core/run/run.ts";
import { enter, type TransitionTask, schedule, watchTtl } from "../line/line.ts";
import { findBySeq } from "../line/find-task.ts";
import { readyBytes, trim } from "../line/trim.ts";
import { changeHolder } from "../line/change-holder.ts";
import { joinFamily } from "../flows/children.ts";
import { isOfRun, joinRun } from "../flows/runs.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * The verb `add`: the checks of all adds, and the general path (keys, groups, delays, time-to-live, costs). Plain
 * tasks take the fast path in transaction/add-buffer.ts.
 */

export function add(tx: Tx, { tasks }: Verbs["add"]["in"]): AddedTask[] {
  return addTasks(tx, tasks);
}

/** Adds all or none: everything is checked before anything is written. */
export function addTasks(tx: Tx, tasks: (NewTask | RunTask)[]): AddedTask[] {
  checkAdds(tx, tasks);
  return addChecked(tx, tasks);
}

/** After the operation that they belong to, which must not change whether they fit. */
export function addChecked(tx: Tx, tasks: (NewTask | RunTask)[]): AddedTask[] {
  const added = tasks.map((task) => addOne(tx, task));
  if (tx.queues.traits.dropsOldest) trimAll(tx, tasks);
  return added;
}

function trimAll(tx: Tx, tasks: readonly { queue: string }[]): void {
  for (const name of new Set(tasks.map(({ queue }) => queue))) trim(tx, tx.queues.named(name)!, tasks.length);
}

export function checkAdds(tx: Tx, tasks: (NewTask | RunTask)[]): void {
  checkPayloads(tasks, (queue) => tx.queues.policyOf(queue));
  for (const [name, count] of countNew(tasks, (task) => takenKey(tx, task) !== undefined)) {
    const queue = tx.queues.named(name);
    if (!queue || queue.policy.overflow === "drop-oldest") continue;
    const { maxDepth, maxBytes } = queue.policy;
    if (maxDepth !== null) checkDepth(name, tx.counters.depth(queue), count, maxDepth);
    if (maxBytes !== null) checkBytes(name, tasks, readyBytes(tx, queue), maxBytes);
  }
}

const KEY = `
  SELECT task, created_at, state FROM idempotency
  WHERE queue = ? AND key = ? AND (forget_at IS NULL OR forget_at > ?)`;
// A free key passes to the new task.
const INSERT_KEY = `INSERT OR REPLACE INTO idempotency (queue, key, task, created_at) VALUES (?, ?, ?, ?)`;
const INSERT_TASK = `
  INSERT INTO task (seq, queue, created_at, priority, group_key, expires_at, max_attempts,
    idempotency_key, content_type, headers, data, cost)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

interface KeyRow {
  task: number;
  created_at: number;
  state: EndState | null;
}

export function takenKey(
  tx: Tx,
  { queue: name, idempotencyKey, unique }: Pick<NewTask, "queue" | "idempotencyKey" | "unique">,
): KeyRow | undefined {
  const queue = tx.queues.named(name);
  const row = queue && tx.get<KeyRow>(KEY, queue.id, idempotencyKey!, tx.now);
  if (!row || unique === undefined) return row;
  const found = findBySeq(tx, row.task);
  const holder = { state: found?.place.state ?? row.state!, failures: found?.failures ?? 0 };
  return holdsKey(unique, { ...holder, createdAt: row.created_at }, tx.now) ? row : undefined;
}

function addOne(tx: Tx, task: NewTask): AddedTask {
  const queue = tx.queues.getOrMake(task.queue);
  const plainSeq = tx.addBuffer.take(queue, task);
  const added = plainSeq === undefined ? addOnGeneralPath(tx, queue, task) : undefined;
  if (added && "id" in added) return added;
  const seq = plainSeq ?? added!.seq;
  const { now } = tx;
  const id = tx.id(now, seq);
  tx.counters.flow(queue).added++;
  tx.announce({ type: "task.added", at: now, queue: task.queue, taskId: id });
  if (!added) return { id, queue: task.queue, state: "ready", existing: false };
  watchTtl(tx, added);
  const later = task.delay !== undefined && task.delay > 0;
  const state = later ? schedule(tx, added, now + task.delay!) : enter(tx, added);
  return { id, queue: task.queue, state, existing: false };
}

/**
 * A task with a key, a group, a time-to-live, a delay or a cost: returns the task that has its key, or writes a new
 * one.
 */
function addOnGeneralPath(tx: Tx, queue: Queue, task: NewTask): AddedTask | TransitionTask {
  const keyed = task.idempotencyKey !== undefined;
  const taken = keyed && takenKey(tx, task);
  if (taken) {
    const found = findBySeq(tx, taken.task);
    const changed = found && task.unique && changeHolder(tx, found, task, task.unique);
    const state = changed ?? found?.place.state ?? taken.state!;
    return { id: tx.id(taken.created_at, taken.task), queue: task.queue, state, existing: true };
  }
  const { now } = tx;
  const seq = ++tx.seq;
  const ttl = task.ttl ?? queue.policy.ttl;
  const added: TransitionTask = {
    seq,
    queue,
    createdAt: now,
    rank: rankOf(task),
    pos: seq,
    groupKey: task.groupKey ?? null,
    blocksGroup: false,
    expiresAt: ttl === null ? null : now + ttl,
    maxAttempts: task.maxAttempts ?? null,
    keyed,
    failures: 0,
  };
  tx.run(
    INSERT_TASK,
    seq,
    queue.id,
    now,
    0 - added.rank,
    added.groupKey,
    added.expiresAt,
    added.maxAttempts,
    task.idempotencyKey ?? null,
    storedContentType(task),
    storedHeaders(task),
    task.data,
    task.cost ?? null,
  );
  if (keyed) tx.run(INSERT_KEY, queue.id, task.idempotencyKey!, seq, now);
  if (isOfRun(task)) joinRun(tx, seq, task);
  if (isChild(task)) joinFamily(tx, seq, task);
  return added;
}
