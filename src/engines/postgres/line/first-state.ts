import type { TaskState } from "../../../core/task/task.ts";
import { least } from "../../../core/answer/least.ts";
import { type Join, joinGroups } from "../limits/add-to-lanes.ts";
import { enterLineOfLanes } from "../limits/lane-line.ts";
import { type Lane, laneName, takeLanes } from "../limits/lanes.ts";
import { numbers } from "../statements/text.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";
import { enterLineAsNew } from "./enter-line.ts";
import { isSpecial } from "./line.ts";

/**
 * The first state of tasks whose row in `task` is written: ready, waiting or scheduled. Adds (verbs/add.ts), redrives
 * (verbs/dead.ts) and the inbox (inbox.ts) call it.
 */

/** A task that enters its first state. */
export interface NewTaskRow {
  /** Its index in the add; -1 for a task that was in the store before this batch. */
  index: number;
  rank: number;
  cost: number | null;
  seq: number;
  /** Its position in the line. It is the task's number, except for a redriven task. */
  pos: number;
  /** When it may enter the line; null: now. */
  due: number | null;
  queue: Queue;
  groupKey: string | null;
  key: string | null;
  expiresAt: number | null;
  /** It is part of a run, or a child, or its handler has stored steps. */
  stepped?: boolean;
  /** The tasks that enter the line when it joins its group, in a queue with limits. */
  joining?: Join;
}

const INSERT_SCHEDULED = `
  INSERT INTO dibs.scheduled (queue, pos, task, due, failures, blocks_group)
  SELECT queue, pos, seq, due, 0, false
  FROM unnest($1::int4[], $2::int8[], $3::int8[], $4::int8[]) AS each (queue, pos, seq, due)`;
const INSERT_WAITING = `
  INSERT INTO dibs.waiting (queue, group_key, pos, task, rank, failures)
  SELECT queue, group_key, pos, seq, rank, 0
  FROM unnest($1::int4[], $2::text[], $3::int8[], $4::int8[], $5::int2[]) AS each (queue, group_key, pos, seq, rank)`;
const INSERT_TTL = `INSERT INTO dibs.ttl (expires_at, task) SELECT * FROM unnest($1::int8[], $2::int8[])`;

export async function enterFirstState(tx: Tx, tasks: NewTaskRow[]): Promise<Map<NewTaskRow, TaskState>> {
  if (tx.queues.hasLimits) await joinGroups(tx, tasks);
  const states = await chooseStates(tx, tasks);
  const inState = (state: TaskState) => tasks.filter((each) => states.get(each) === state);
  writeTtl(
    tx,
    tasks.filter((each) => each.expiresAt !== null),
  );
  // A task that joins a group with limits enters the line below, together with the tasks that it promotes.
  const ready = inState("ready").filter(({ joining }) => !joining);
  enterLineAsNew(
    tx,
    ready.map((each) => ({ ...each, failures: 0, special: isSpecial(each), isLast: each.index >= 0 })),
  );
  writeScheduled(tx, inState("scheduled"));
  writeWaiting(tx, inState("waiting"));
  for (const [{ queue }, state] of states) {
    if (state !== "ready") tx.counters.count(queue, state, 1);
  }
  // After the waiting tasks are written: some of them may be promoted here.
  const promoted = tasks.flatMap(({ joining }) => joining?.promoted ?? []);
  for (const [queue, its] of Map.groupBy(promoted, ({ lane }) => lane.queue))
    await enterLineOfLanes(tx, queue, its);
  return states;
}

/** The first new task of a group becomes its head if the group has none. */
async function chooseStates(tx: Tx, tasks: NewTaskRow[]): Promise<Map<NewTaskRow, TaskState>> {
  const lanes = new Map<string, Lane>();
  for (const each of tasks) {
    if (each.groupKey === null || each.due !== null || each.joining) continue;
    const lane = { queue: each.queue.id, groupKey: each.groupKey };
    lanes.set(laneName(lane), lane);
  }
  const { taken } = await takeLanes(tx, [...lanes.values()]);
  const free = new Set(taken.map(laneName));
  return new Map(
    tasks.map((each) => {
      if (each.due !== null) return [each, "scheduled"];
      if (each.groupKey === null) return [each, "ready"];
      if (each.joining) return [each, each.joining.waiter.isPromoted ? "ready" : "waiting"];
      const isHead = free.delete(laneName({ queue: each.queue.id, groupKey: each.groupKey }));
      return [each, isHead ? "ready" : "waiting"];
    }),
  );
}

function writeTtl(tx: Tx, tasks: NewTaskRow[]): void {
  if (tasks.length === 0) return;
  const ends = tasks.map((each) => each.expiresAt!);
  tx.put(INSERT_TTL, ends, numbersOf(tasks));
  tx.floors.lowerTime("ttl", least(ends));
  tx.batch.noteDue(least(ends));
}

function writeScheduled(tx: Tx, tasks: NewTaskRow[]): void {
  if (tasks.length === 0) return;
  const due = tasks.map((each) => each.due!);
  tx.put(INSERT_SCHEDULED, queuesOf(tasks), positionsOf(tasks), numbersOf(tasks), due);
  tx.floors.lowerTime("scheduled", least(due));
  tx.batch.noteDue(least(due));
}

function writeWaiting(tx: Tx, tasks: NewTaskRow[]): void {
  if (tasks.length === 0) return;
  const groups = tasks.map((each) => each.groupKey!);
  tx.put(INSERT_WAITING, queuesOf(tasks), groups, positionsOf(tasks), numbersOf(tasks), ranksOf(tasks));
}

export function queuesOf(tasks: NewTaskRow[]): string {
  return numbers(tasks.map(({ queue }) => queue.id));
}

export function numbersOf(tasks: NewTaskRow[]): string {
  return numbers(tasks.map(({ seq }) => seq));
}

function positionsOf(tasks: NewTaskRow[]): string {
  return numbers(tasks.map(({ pos }) => pos));
}

function ranksOf(tasks: NewTaskRow[]): string {
  return numbers(tasks.map(({ rank }) => rank));
}
