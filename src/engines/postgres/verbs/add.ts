import type { Verbs } from "../../../engine/engine.ts";
import { isLarger, queueFull, tooLarge } from "../../../core/limits.ts";
import { type AddedTask, type EndState, type NewTask, rankOf, type TaskState } from "../../../core/task.ts";
import { isGathered, type RunTask } from "../../../core/run.ts";
import {
  bodiesOf,
  column,
  contentTypeOf,
  headersColumn,
  headersSql,
  type Payloads,
  textsSql,
} from "./add-columns.ts";
import { addPlainly, areAllPlain } from "./add-fast.ts";
import { type Join, joinGroups, joinNew, risenBy, takesTurns } from "../limits/add-to-lanes.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { enterLine } from "../limits/lane-line.ts";
import { type Lane, laneName, takeLanes } from "../limits/lanes.ts";
import { isSpecial } from "../line/line.ts";
import { findMany } from "../line/find-task.ts";
import { StaleRead } from "../connection/batch-conflicts.ts";
import { isOfRun, joinRuns } from "../flows/runs.ts";
import { numbers } from "../statements/text.ts";
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

/** After what they are added with, which must not change any more whether they fit. */
export async function addChecked(tx: Tx, tasks: (NewTask | RunTask)[]): Promise<AddedTask[]> {
  return addAll(tx, tasks, await takenKeys(tx, tasks));
}

/** But for those whose keys are taken. */
async function addAll(
  tx: Tx,
  tasks: (NewTask | RunTask)[],
  taken: Map<string, KeyRow>,
): Promise<AddedTask[]> {
  if (areAllPlain(tx, tasks)) return addPlainly(tx, tasks);
  const existing = await stateOfTaken(tx, taken);
  const newcomers = await giveNumbers(tx, tasks, taken);
  const states = await lineUp(tx, newcomers);
  const byKey = new Map(
    newcomers.flatMap((each) => (each.key === null ? [] : [[keyName(each.task), each] as const])),
  );
  const byIndex = new Map(newcomers.map((each) => [each.index, each]));
  const risen = tx.queues.hasLimits ? risenBy(newcomers) : undefined;
  return tasks.map((task, index) => {
    const newcomer = byIndex.get(index) ?? byKey.get(keyName(task));
    const key = newcomer ? undefined : taken.get(keyName(task))!;
    return {
      id: newcomer ? tx.id(tx.now, newcomer.seq) : tx.id(key!.created_at, key!.task),
      queue: task.queue,
      state: newcomer
        ? states.get(newcomer)!
        : (risen?.get(key!.task) ?? index) < index
          ? "ready"
          : existing.get(key!.task)!,
      existing: newcomer?.index !== index,
    };
  });
}

/** Refuses what does not fit; answers the keys that are taken already. */
export async function checkAdds(tx: Tx, tasks: (NewTask | RunTask)[]): Promise<Map<string, KeyRow>> {
  for (const [index, task] of tasks.entries()) {
    const { maxPayload } = tx.queues.policyOf(task.queue);
    if (!isGathered(task) && isLarger(task.data, maxPayload)) {
      const what = tasks.length > 1 ? `The payload of task ${index}` : "The payload";
      throw tooLarge(what, task.data, maxPayload, task.queue);
    }
  }
  const taken = await takenKeys(tx, tasks);
  const adding = new Map<string, number>();
  for (const { queue } of tasks.filter(isFirstOf(taken))) adding.set(queue, (adding.get(queue) ?? 0) + 1);
  for (const [name, count] of adding) await checkDepth(tx, name, count);
  return taken;
}

/** Whether a task is to be added: it has no key, or is the first that comes with one which is free. */
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

async function checkDepth(tx: Tx, name: string, count: number): Promise<void> {
  const queue = tx.queues.named(name);
  const maxDepth = queue?.policy.maxDepth ?? null;
  if (!queue || maxDepth === null) return;
  const { ready, waiting, scheduled } = await tx.counters.depth(queue);
  const depth = ready + waiting + scheduled;
  if (depth + count > maxDepth) throw queueFull(name, depth, count, maxDepth);
}

/** What a key is looked up by. */
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

function keyName({ queue, idempotencyKey }: Keyed): string {
  return `${queue}\n${idempotencyKey}`;
}

async function takenKeys(tx: Tx, tasks: Keyed[]): Promise<Map<string, KeyRow>> {
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

async function stateOfTaken(tx: Tx, taken: Map<string, KeyRow>): Promise<Map<number, TaskState>> {
  const rows = [...taken.values()];
  const found = await findMany(
    tx,
    rows.map((row) => row.task),
  );
  const states = new Map(found.map((task) => [task.seq, task.place.state]));
  return new Map(rows.map((row) => [row.task, states.get(row.task) ?? row.state!]));
}

/** A task that is to be added, with its number. */
export interface NewTaskRow {
  /** Which of the given it is; -1: it was given earlier. */
  index: number;
  rank: number;
  cost: number | null;
  seq: number;
  /** Its place in line: its number, but for one that is redriven. */
  pos: number;
  /** Not before then; null: at once. */
  due: number | null;
  queue: Queue;
  groupKey: string | null;
  key: string | null;
  expiresAt: number | null;
  /** Of one that was here before: something is kept for its next run. Or it is of a pipeline's run. */
  stepped?: boolean;
  /** Who takes a place in line when it joins its group, where that has limits. */
  joining?: Join;
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
  const turns = [...(joins?.values() ?? [])].flatMap((join) => (takesTurns(join) ? join.risers : []));
  const seqs = await tx.numbers("seq", adding.length + turns.length);
  const newcomers: Added[] = [];
  let next = 0;
  for (const [index, task] of adding) {
    const queue = await tx.queues.getOrMake(task.queue);
    const ttl = task.ttl ?? queue.policy.ttl;
    const seq = seqs[next++]!;
    const joining = joins?.get(index);
    if (joining) {
      joining.waiter.task = seq;
      joining.waiter.pos = seq;
      // Who comes up because of it comes behind it, and before the next one.
      const inTurns = takesTurns(joining);
      for (const riser of joining.risers) riser.place = inTurns ? seqs[next++]! : riser.waiter.pos;
    }
    newcomers.push({
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
      ...(isOfRun(task) && { stepped: true }),
      ...(joining && { joining }),
    });
    tx.counters.flow(queue).added++;
    tx.events.announce({ type: "task.added", at: tx.now, queue: task.queue, taskId: tx.id(tx.now, seq) });
  }
  return newcomers;
}

function insertTasks(payloads: Payloads, more = false): string {
  return `
  INSERT INTO dibs.task (created_at, seq, queue, priority, group_key, expires_at, max_attempts, idempotency_key,
    content_type, headers, data, bytes${more ? ", cost, urgent" : ""})
  SELECT $1, seq, queue, coalesce(priority, 0), group_key, expires_at, max_attempts, idempotency_key, content_type,
    headers, data, bytes${more ? ", cost, urgent" : ""}
  FROM ROWS FROM (unnest($2::int8[], $3::int4[], $4::int2[], $5::text[], $6::int8[], $7::int4[], $8::text[], $9::text[]),
    ${headersSql("$10")}, ${textsSql("$11", payloads)}, unnest($12::bytea[]${more ? ", $13::int8[], $14::bool[]" : ""})) AS each (seq, queue,
    priority, group_key, expires_at, max_attempts, idempotency_key, content_type, headers, data, bytes${more ? ", cost, urgent" : ""})`;
}

const INSERT_TASKS = { joined: insertTasks("joined"), listed: insertTasks("listed") };
/** Where some have a cost, or are urgent. */
const INSERT_COSTLY = { joined: insertTasks("joined", true), listed: insertTasks("listed", true) };
const INSERT_READY = `
  INSERT INTO dibs.ready (queue, rank, pos, task, failures, special)
  SELECT queue, rank, pos, seq, 0, special
  FROM unnest($1::int4[], $2::int2[], $3::int8[], $4::int8[], $5::bool[]) AS each (queue, rank, pos, seq, special)`;
const INSERT_SCHEDULED = `
  INSERT INTO dibs.scheduled (queue, pos, task, due, failures, holds_group)
  SELECT queue, pos, seq, due, 0, false
  FROM unnest($1::int4[], $2::int8[], $3::int8[], $4::int8[]) AS each (queue, pos, seq, due)`;
const INSERT_WAITING = `
  INSERT INTO dibs.waiting (queue, group_key, pos, task, rank, failures)
  SELECT queue, group_key, pos, seq, rank, 0
  FROM unnest($1::int4[], $2::text[], $3::int8[], $4::int8[], $5::int2[]) AS each (queue, group_key, pos, seq, rank)`;
const INSERT_TTL = `INSERT INTO dibs.ttl (expires_at, task) SELECT * FROM unnest($1::int8[], $2::int8[])`;
// A key whose time has passed gives way to the new task's.
const INSERT_KEYS = `
  INSERT INTO dibs.idempotency (queue, key, task, created_at)
  SELECT queue, key, task, $1 FROM unnest($2::int4[], $3::text[], $4::int8[]) AS each (queue, key, task)
  ORDER BY queue, key COLLATE "C"
  ON CONFLICT (queue, key) DO UPDATE
  SET task = excluded.task, created_at = excluded.created_at, forget_at = NULL, state = NULL
  WHERE idempotency.forget_at <= $1`;

/** Writes them all, each into the state it begins in. */
async function lineUp(tx: Tx, newcomers: Added[]): Promise<Map<NewTaskRow, TaskState>> {
  if (newcomers.length === 0) return new Map();
  await writeKeys(tx, newcomers);
  writeTasks(tx, newcomers);
  joinRuns(tx, newcomers);
  return takePlaces(tx, newcomers);
}

/** Of tasks whose rows are written. */
export async function takePlaces(tx: Tx, newcomers: NewTaskRow[]): Promise<Map<NewTaskRow, TaskState>> {
  if (tx.queues.hasLimits) await joinGroups(tx, newcomers);
  const states = await chooseStates(tx, newcomers);
  const inState = (state: TaskState) => newcomers.filter((each) => states.get(each) === state);
  const mortal = newcomers.filter((each) => each.expiresAt !== null);
  if (mortal.length > 0) {
    const ends = mortal.map((each) => each.expiresAt!);
    tx.put(INSERT_TTL, ends, numbersOf(mortal));
    tx.floors.lowerTime("ttl", least(ends));
  }
  if (mortal.some((each) => each.expiresAt! <= tx.now)) tx.swept = false;
  const ready = inState("ready").filter(({ joining }) => !joining);
  if (ready.length > 0) {
    tx.put(
      INSERT_READY,
      queuesOf(ready),
      ranksOf(ready),
      placesOf(ready),
      numbersOf(ready),
      ready.map(isSpecial),
    );
  }
  const scheduled = inState("scheduled");
  if (scheduled.length > 0) {
    const due = scheduled.map((each) => each.due!);
    if (due.some((at) => at <= tx.now)) tx.swept = false;
    tx.floors.lowerTime("scheduled", least(due));
    tx.put(INSERT_SCHEDULED, queuesOf(scheduled), placesOf(scheduled), numbersOf(scheduled), due);
  }
  const waiting = inState("waiting");
  if (waiting.length > 0) {
    const groups = waiting.map((each) => each.groupKey!);
    tx.put(
      INSERT_WAITING,
      queuesOf(waiting),
      groups,
      placesOf(waiting),
      numbersOf(waiting),
      ranksOf(waiting),
    );
  }
  for (const each of ready) {
    tx.hintReady(each.queue);
    comeBefore(tx, each);
  }
  for (const [{ queue, joining }, state] of states) {
    if (!joining || state !== "ready") tx.counters.count(queue, state, 1);
  }
  // Those that wait are written by now: some of them may be among these.
  const risers = newcomers.flatMap(({ joining }) => joining?.risers ?? []);
  for (const [queue, its] of Map.groupBy(risers, ({ lane }) => lane.queue)) await enterLine(tx, queue, its);
  return states;
}

/** Without so many arguments as there may be tasks. */
function least(values: number[]): number {
  return values.reduce((a, b) => Math.min(a, b));
}

function isCostly({ task }: Added): boolean {
  return task.cost !== undefined || task.urgent === true;
}

/** A new task comes last, but for those of a higher priority, and those whose number is old (inbox.ts). */
function comeBefore(tx: Tx, { rank, queue, pos, index }: NewTaskRow): void {
  if (rank < 0 || index < 0) tx.floors.lower(queue, rank, pos);
}

async function writeKeys(tx: Tx, newcomers: NewTaskRow[]): Promise<void> {
  const keyed = newcomers.filter((each) => each.key !== null);
  if (keyed.length === 0) return;
  const written = await tx.run(
    INSERT_KEYS,
    tx.now,
    queuesOf(keyed),
    keyed.map((each) => each.key!),
    numbersOf(keyed),
  );
  // Somebody else's commit has taken one of them since we looked.
  if (written < keyed.length) throw new StaleRead();
}

function writeTasks(tx: Tx, newcomers: Added[]): void {
  const sql = newcomers.some(isCostly) ? INSERT_COSTLY : INSERT_TASKS;
  const tasks = newcomers.map(({ task }) => task);
  const { payloads, texts, bytes } = bodiesOf(tasks);
  const more = sql === INSERT_COSTLY ? [column(costsOf(newcomers)), column(urgentOf(newcomers))] : [];
  tx.put(
    sql[payloads],
    tx.now,
    numbersOf(newcomers),
    queuesOf(newcomers),
    column(tasks.map(({ priority }) => priority || null)),
    column(newcomers.map((each) => each.groupKey)),
    column(newcomers.map((each) => each.expiresAt)),
    column(tasks.map(({ maxAttempts }) => maxAttempts ?? null)),
    column(newcomers.map((each) => each.key)),
    column(tasks.map(contentTypeOf)),
    headersColumn(tasks),
    texts,
    bytes,
    ...more,
  );
}

function costsOf(newcomers: Added[]): (number | null)[] {
  return newcomers.map(({ cost }) => cost);
}

function urgentOf(newcomers: Added[]): (boolean | null)[] {
  return newcomers.map(({ task }) => task.urgent || null);
}

/** Of those that share a group the first becomes its head, where there is none. */
async function chooseStates(tx: Tx, newcomers: NewTaskRow[]): Promise<Map<NewTaskRow, TaskState>> {
  const lanes = new Map<string, Lane>();
  for (const each of newcomers) {
    if (each.groupKey === null || each.due !== null || each.joining) continue;
    const lane = { queue: each.queue.id, groupKey: each.groupKey };
    lanes.set(laneName(lane), lane);
  }
  const { taken } = await takeLanes(tx, [...lanes.values()]);
  const free = new Set(taken.map(laneName));
  return new Map(
    newcomers.map((each) => {
      if (each.due !== null) return [each, "scheduled"];
      if (each.groupKey === null) return [each, "ready"];
      if (each.joining) return [each, each.joining.waiter.rises ? "ready" : "waiting"];
      const isHead = free.delete(laneName({ queue: each.queue.id, groupKey: each.groupKey }));
      return [each, isHead ? "ready" : "waiting"];
    }),
  );
}

function queuesOf(newcomers: NewTaskRow[]): string {
  return numbers(newcomers.map(({ queue }) => queue.id));
}

function numbersOf(newcomers: NewTaskRow[]): string {
  return numbers(newcomers.map(({ seq }) => seq));
}

function placesOf(newcomers: NewTaskRow[]): string {
  return numbers(newcomers.map(({ pos }) => pos));
}

function ranksOf(newcomers: NewTaskRow[]): string {
  return numbers(newcomers.map(({ rank }) => rank));
}
