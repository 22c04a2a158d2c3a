import type { Verbs } from "../../../engine/engine.ts";
import {
  checkBytes,
  checkDepth,
  checkPayloads,
  countNew,
  storedContentType,
} from "../../../core/task/add-rules.ts";
import { isChild } from "../../../core/handler/children.ts";
import {
  type AddedTask,
  type EndState,
  type NewTask,
  rankOf,
  type TaskState,
} from "../../../core/task/task.ts";
import { holdsKey } from "../../../core/task/unique.ts";
import type { RunTask } from "../../../core/run/run.ts";
import { bodiesOf, column, headersColumn, headersSql, type Payloads, textsSql } from "./add-columns.ts";
import { addPlainly, areAllPlain } from "./add-fast.ts";
import { joinNew, promotedBy, rotates } from "../limits/add-to-lanes.ts";
import { enterFirstState, type NewTaskRow, numbersOf, queuesOf } from "../line/first-state.ts";
import { changeHolder } from "../line/change-holder.ts";
import { findBySeq, findMany } from "../line/find-task.ts";
import { deleteKeys, keyPlaces } from "../line/keys.ts";
import { readyBytes, trim } from "../line/trim.ts";
import { StaleRead } from "../connection/batch-conflicts.ts";
import { joinFamilies } from "../flows/children.ts";
import { isOfRun, joinRuns } from "../flows/runs.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * The verb `add`: the checks of all adds, and the general path (keys, groups, delays, time-to-live, costs, runs).
 * Plain tasks take the fast path in add-fast.ts.
 */

export function add(tx: Tx, { tasks }: Verbs["add"]["in"]): Promise<AddedTask[]> {
  return addTasks(tx, tasks);
}

/** Adds all or none: everything is checked before anything is written. */
export async function addTasks(tx: Tx, tasks: (NewTask | RunTask)[]): Promise<AddedTask[]> {
  return addAll(tx, tasks, await checkAdds(tx, tasks));
}

/** After the operation that they belong to, which must not change whether they fit. */
export async function addChecked(tx: Tx, tasks: (NewTask | RunTask)[]): Promise<AddedTask[]> {
  return addAll(tx, tasks, await takenKeys(tx, tasks));
}

/** Adds the tasks whose keys are free. */
async function addAll(
  tx: Tx,
  tasks: (NewTask | RunTask)[],
  taken: Map<string, KeyRow>,
): Promise<AddedTask[]> {
  await tx.queues.make(tasks.map(({ queue }) => queue));
  const added = await (areAllPlain(tx, tasks)
    ? addPlainly(tx, tasks)
    : tasks.some(({ unique }) => unique !== undefined)
      ? addInTurn(tx, tasks)
      : addGenerally(tx, tasks, taken));
  if (tx.queues.traits.dropsOldest) await trimAll(tx, tasks);
  return added;
}

async function trimAll(tx: Tx, tasks: readonly { queue: string }[]): Promise<void> {
  for (const name of new Set(tasks.map(({ queue }) => queue)))
    await trim(tx, tx.queues.named(name)!, tasks.length);
}

async function addGenerally(
  tx: Tx,
  tasks: (NewTask | RunTask)[],
  taken: Map<string, KeyRow>,
): Promise<AddedTask[]> {
  const existing = await stateOfTaken(tx, taken);
  const newTasks = await giveNumbers(tx, tasks, taken);
  const states = await writeAll(tx, newTasks);
  const byKey = new Map(
    newTasks.flatMap((each) => (each.key === null ? [] : [[keyName(each.task), each] as const])),
  );
  const byIndex = new Map(newTasks.map((each) => [each.index, each]));
  const promotions = tx.queues.hasLimits ? promotedBy(newTasks) : undefined;
  return tasks.map((task, index) => {
    const newTask = byIndex.get(index) ?? byKey.get(keyName(task));
    const key = newTask ? undefined : taken.get(keyName(task))!;
    return {
      id: newTask ? tx.id(tx.now, newTask.seq) : tx.id(key!.created_at, key!.task),
      queue: task.queue,
      state: newTask
        ? states.get(newTask)!
        : (promotions?.get(key!.task) ?? index) < index
          ? "ready"
          : existing.get(key!.task)!,
      existing: newTask?.index !== index,
    };
  });
}

/** One by one: an add can change the task of the one before it. */
async function addInTurn(tx: Tx, tasks: (NewTask | RunTask)[]): Promise<AddedTask[]> {
  const added: AddedTask[] = [];
  for (const task of tasks) {
    const taken = await takenKeys(tx, [task]);
    const existing = task.unique && (await meetHolder(tx, task, taken.get(keyName(task))));
    if (task.unique) taken.clear();
    added.push(existing ?? (await addGenerally(tx, [task], taken))[0]!);
  }
  return added;
}

/** The task that has the key of a unique task, changed as the add wants it. Undefined if the key is free now. */
async function meetHolder(tx: Tx, task: NewTask, row: KeyRow | undefined): Promise<AddedTask | undefined> {
  if (!row) return undefined;
  const unique = task.unique!;
  for (;;) {
    const found = await findBySeq(tx, row.task);
    const holder = { state: found?.place.state ?? row.state!, failures: found?.failures ?? 0 };
    if (!holdsKey(unique, { ...holder, createdAt: row.created_at }, tx.now)) {
      // The holder may have lost the key to a task of another transaction by now. Then the insert finds that out.
      deleteKeys(tx, [row]);
      return undefined;
    }
    const state = found ? await changeHolder(tx, found, task, unique) : holder.state;
    // It moved between the two statements.
    if (state === undefined) continue;
    return { id: tx.id(row.created_at, row.task), queue: task.queue, state, existing: true };
  }
}

/** Refuses what does not fit. Returns the keys that are taken. */
export async function checkAdds(tx: Tx, tasks: (NewTask | RunTask)[]): Promise<Map<string, KeyRow>> {
  checkPayloads(tasks, (queue) => tx.queues.policyOf(queue));
  const taken = await takenKeys(tx, tasks);
  const held = tasks.some(({ unique }) => unique !== undefined) ? await heldKeys(tx, tasks, taken) : taken;
  for (const [name, count] of countNew(tasks, (task) => held.has(keyName(task)))) {
    const queue = tx.queues.named(name);
    if (!queue || queue.policy.overflow === "drop-oldest") continue;
    const { maxDepth, maxBytes } = queue.policy;
    if (maxDepth !== null) checkDepth(name, await tx.counters.depth(queue), count, maxDepth);
    if (maxBytes !== null) checkBytes(name, tasks, await readyBytes(tx, queue), maxBytes);
  }
  return taken;
}

/** Whether a task is new: it has no key, or is the first with a free key. */
function isFirstOf(taken: Map<string, KeyRow>): (task: Keyed) => boolean {
  const seen = new Set<string>();
  return (task) => {
    if (task.idempotencyKey === undefined) return true;
    const name = keyName(task);
    if (taken.has(name) || seen.has(name)) return false;
    seen.add(name);
    return true;
  };
}

/** The name of a key in maps. */
export type Keyed = Pick<NewTask, "queue" | "idempotencyKey">;

export interface KeyRow {
  queue: number;
  key: string;
  task: number;
  created_at: number;
  state: EndState | null;
}

const KEYS = `
  SELECT idempotency.queue, idempotency.key, task, created_at, state
  FROM unnest($1::int4[], $2::text[]) AS wanted (queue, key)
  CROSS JOIN LATERAL (
    SELECT * FROM dibs.idempotency WHERE queue = wanted.queue AND key = wanted.key COLLATE "C" OFFSET 0) AS idempotency
  WHERE forget_at IS NULL OR forget_at > $3`;

export function keyName({ queue, idempotencyKey }: Keyed): string {
  return `${queue}\n${idempotencyKey}`;
}

export async function takenKeys(tx: Tx, tasks: Keyed[]): Promise<Map<string, KeyRow>> {
  const wanted = tasks.filter((task) => task.idempotencyKey !== undefined && tx.queues.named(task.queue));
  if (wanted.length === 0) return new Map();
  const rows = await tx.all<KeyRow>(
    KEYS,
    wanted.map((task) => tx.queues.named(task.queue)!.id),
    wanted.map((task) => task.idempotencyKey!),
    tx.now,
  );
  return new Map(rows.map((row) => [`${tx.queues.of(row.queue).name}\n${row.key}`, row]));
}

/** Without keys that unique tasks take over from the tasks that have them. */
async function heldKeys(
  tx: Tx,
  tasks: readonly (NewTask | RunTask)[],
  taken: Map<string, KeyRow>,
): Promise<Map<string, KeyRow>> {
  const held = new Map(taken);
  const found = await findMany(
    tx,
    [...taken.values()].map((row) => row.task),
  );
  const bySeq = new Map(found.map((task) => [task.seq, task]));
  for (const task of tasks) {
    const row = taken.get(keyName(task));
    if (!row || !task.unique) continue;
    const holder = bySeq.get(row.task);
    const state = holder?.place.state ?? row.state!;
    const given = { state, failures: holder?.failures ?? 0, createdAt: row.created_at };
    if (!holdsKey(task.unique, given, tx.now)) held.delete(keyName(task));
  }
  return held;
}

async function stateOfTaken(tx: Tx, taken: Map<string, KeyRow>): Promise<Map<number, TaskState>> {
  const rows = [...taken.values()];
  const found = await findMany(
    tx,
    rows.map((row) => row.task),
  );
  const states = new Map(found.map((task) => [task.seq, task.place.state]));
  return new Map(rows.map((row) => [row.task, states.get(row.task) ?? row.state!]));
}

type Added = NewTaskRow & { task: NewTask | RunTask };

async function giveNumbers(
  tx: Tx,
  tasks: (NewTask | RunTask)[],
  taken: Map<string, KeyRow>,
): Promise<Added[]> {
  const isFirst = isFirstOf(taken);
  const adding = [...tasks.entries()].filter(([, task]) => isFirst(task));
  const joins = tx.queues.hasLimits ? await joinNew(tx, adding) : undefined;
  const turns = [...(joins?.values() ?? [])].flatMap((join) => (rotates(join) ? join.promoted : []));
  const seqs = await tx.numbers("seq", adding.length + turns.length);
  const newTasks: Added[] = [];
  let next = 0;
  for (const [index, task] of adding) {
    const queue = tx.queues.named(task.queue)!;
    const ttl = task.ttl ?? queue.policy.ttl;
    const seq = seqs[next++]!;
    const joining = joins?.get(index);
    if (joining) {
      joining.waiter.task = seq;
      joining.waiter.pos = seq;
      // Tasks that it promotes get numbers behind its own, and before the next task's.
      const isRotating = rotates(joining);
      for (const each of joining.promoted) each.linePos = isRotating ? seqs[next++]! : each.waiter.pos;
    }
    newTasks.push({
      index,
      task,
      rank: rankOf(task),
      cost: task.cost ?? null,
      seq,
      pos: seq,
      due: task.delay !== undefined && task.delay > 0 ? tx.now + task.delay : null,
      queue,
      groupKey: task.groupKey ?? null,
      key: task.idempotencyKey ?? null,
      expiresAt: ttl === null ? null : tx.now + ttl,
      ...((isOfRun(task) || isChild(task)) && { stepped: true }),
      ...(joining && { joining }),
    });
    tx.counters.flow(queue).added++;
    tx.events.announce({ type: "task.added", at: tx.now, queue: task.queue, taskId: tx.id(tx.now, seq) });
  }
  return newTasks;
}

const insertTasks = (payloads: Payloads): string => `
  INSERT INTO dibs.task (created_at, seq, queue, priority, group_key, expires_at, max_attempts, idempotency_key,
    content_type, headers, data, bytes, cost, urgent)
  SELECT $1, seq, queue, coalesce(priority, 0), group_key, expires_at, max_attempts, idempotency_key, content_type,
    headers, data, bytes, cost, urgent
  FROM ROWS FROM (unnest($2::int8[], $3::int4[], $4::int2[], $5::text[], $6::int8[], $7::int4[], $8::text[], $9::text[]),
    ${headersSql("$10")}, ${textsSql("$11", payloads)}, unnest($12::bytea[], $13::int8[], $14::bool[])) AS each (seq, queue,
    priority, group_key, expires_at, max_attempts, idempotency_key, content_type, headers, data, bytes, cost, urgent)`;
const INSERT_TASKS = { joined: insertTasks("joined"), listed: insertTasks("listed") };
// An expired key passes to the new task.
const INSERT_KEYS = `
  INSERT INTO dibs.idempotency (queue, key, task, created_at)
  SELECT queue, key, task, $1 FROM unnest($2::int4[], $3::text[], $4::int8[]) AS each (queue, key, task)
  ORDER BY queue, key COLLATE "C"
  ON CONFLICT (queue, key) DO UPDATE
  SET task = excluded.task, created_at = excluded.created_at, forget_at = NULL, state = NULL
  WHERE idempotency.forget_at <= $1`;

/** Writes all tasks, each into its first state. */
async function writeAll(tx: Tx, newTasks: Added[]): Promise<Map<NewTaskRow, TaskState>> {
  if (newTasks.length === 0) return new Map();
  await writeKeys(tx, newTasks);
  writeTasks(tx, newTasks);
  joinRuns(tx, newTasks);
  joinFamilies(tx, newTasks);
  return enterFirstState(tx, newTasks);
}

async function writeKeys(tx: Tx, newTasks: NewTaskRow[]): Promise<void> {
  const keyed = newTasks.filter((each) => each.key !== null);
  if (keyed.length === 0) return;
  const { count } = await tx.insert(
    keyPlaces(keyed),
    INSERT_KEYS,
    tx.now,
    queuesOf(keyed),
    keyed.map((each) => each.key!),
    numbersOf(keyed),
  );
  // Another transaction has taken one of the keys meanwhile.
  if (count < keyed.length) throw new StaleRead();
  tx.noteWrite();
}

function writeTasks(tx: Tx, newTasks: Added[]): void {
  const tasks = newTasks.map(({ task }) => task);
  const { payloads, texts, bytes } = bodiesOf(tasks);
  tx.put(
    INSERT_TASKS[payloads],
    tx.now,
    numbersOf(newTasks),
    queuesOf(newTasks),
    column(tasks.map(({ priority }) => priority || null)),
    column(newTasks.map((each) => each.groupKey)),
    column(newTasks.map((each) => each.expiresAt)),
    column(tasks.map(({ maxAttempts }) => maxAttempts ?? null)),
    column(newTasks.map((each) => each.key)),
    column(tasks.map(storedContentType)),
    headersColumn(tasks),
    texts,
    bytes,
    column(newTasks.map(({ cost }) => cost)),
    column(tasks.map(({ urgent }) => urgent || null)),
  );
}
