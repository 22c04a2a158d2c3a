import { joinsGroupWhenDue } from "../../../core/task/transition.ts";
import { butForBusy } from "./first-due.ts";
import { sinceFloor } from "./floors.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { type Lane, laneName, takeLanes, wait } from "../limits/lanes.ts";
import { OF_TASK, TASK_COLUMNS, type TaskRow, transitionTaskFrom } from "./held.ts";
import { enter, type TransitionTask } from "./line.ts";
import { deleteEach, rowsBy, TASK_OF } from "../statements/look-up.ts";
import { keepStep } from "../flows/steps.ts";
import { fromText } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/** Promotes scheduled and parked tasks that are due. sweep.ts calls it. */

export interface DueRow extends TaskRow {
  queue: number;
  task: number;
  failures: number;
  blocks_group: boolean;
  signal: string | null;
  stepped: boolean;
}

/** Scheduled tasks that are due, at most `$2`. */
export const DUE = `
  SELECT scheduled.queue, scheduled.task, failures, blocks_group, signal, ${TASK_COLUMNS}, EXISTS (SELECT 1 FROM dibs.step WHERE step.task = scheduled.task OFFSET 0)
      OR EXISTS ${rowsBy("run_part", { task: "scheduled.task" }, { columns: "1" })}
      OR EXISTS ${rowsBy("child", { task: "scheduled.task" }, { columns: "1" })} AS stepped
  FROM dibs.scheduled CROSS JOIN ${TASK_OF("scheduled", OF_TASK)}
  WHERE due <= $1 AND ${sinceFloor("scheduled", "due")} AND ${butForBusy("scheduled.queue", "task.group_key")}
  ORDER BY due, task LIMIT $2 FOR UPDATE OF scheduled SKIP LOCKED`;
const DELETE_SCHEDULED = deleteEach("scheduled", `unnest($1::int4[], $2::int8[]) AS wanted (queue, pos)`, {
  queue: "wanted.queue",
  pos: "wanted.pos",
});
const MOVE = `UPDATE dibs.task SET pos = $1 WHERE seq = $2`;

/** A task that a change has taken out of the schedule enters the line, or its group. */
export async function promoteOne(tx: Tx, task: TransitionTask): Promise<"ready" | "waiting"> {
  if (joinsGroupWhenDue({ ...task, signal: null })) moveTo(tx, task, (await tx.numbers("seq", 1))[0]!);
  return enter(tx, task);
}

/** Due tasks enter the line, or wait behind the head of their group. */
export async function promote(tx: Tx, rows: readonly DueRow[]): Promise<void> {
  if (rows.length === 0) return;
  tx.send(
    DELETE_SCHEDULED,
    rows.map((row) => row.queue),
    rows.map((row) => row.pos),
  );
  // If groups rotate, entering the line takes a number too, so the tasks go one by one.
  if (rows.some((row) => row.group_key !== null && tx.queues.of(row.queue).limited)) {
    for (const row of rows) {
      const task = leaveSchedule(tx, row);
      if (isNewToGroup(row)) moveTo(tx, task, (await tx.numbers("seq", 1))[0]!);
      await enter(tx, task);
    }
    return;
  }
  const joining = rows.filter((row) => row.group_key !== null && !row.blocks_group);
  const places = await tx.numbers("seq", joining.filter(isNewToGroup).length);
  const lanes = new Map(joining.map((row) => [laneName(laneOf(row)), laneOf(row)]));
  const free = new Set((await takeLanes(tx, [...lanes.values()])).taken.map(laneName));
  for (const row of rows) {
    const task = leaveSchedule(tx, row);
    if (isNewToGroup(row)) moveTo(tx, task, places.shift()!);
    if (joining.includes(row)) {
      task.blocksGroup = free.delete(laneName(laneOf(row)));
      if (!task.blocksGroup) {
        wait(tx, task);
        continue;
      }
    }
    await enter(tx, task);
  }
}

function isNewToGroup(row: DueRow): boolean {
  const { group_key: groupKey, blocks_group: blocksGroup, failures, signal } = row;
  return joinsGroupWhenDue({ groupKey, blocksGroup, failures, signal });
}

function moveTo(tx: Tx, task: TransitionTask, pos: number): void {
  task.pos = pos;
  tx.send(MOVE, pos, task.seq);
}

function leaveSchedule(tx: Tx, row: DueRow): TransitionTask {
  const queue = tx.queues.of(row.queue);
  tx.counters.count(queue, row.signal === null ? "scheduled" : "parked", -1);
  if (row.signal !== null) keepStep(tx, row.task, "timeout", fromText(row.signal), null);
  return promoted(queue, row);
}

function laneOf({ queue, group_key: groupKey }: DueRow): Lane {
  return { queue, groupKey: groupKey! };
}

function promoted(queue: Queue, row: DueRow): TransitionTask {
  return {
    ...transitionTaskFrom(queue, { ...row, special: row.stepped || row.signal !== null }),
    blocksGroup: row.blocks_group,
    // It stays pending, so its time-to-live does not change.
    expiresAt: null,
  };
}
