import { loseRelatives } from "../flows/children.ts";
import { DELETE_LOGS } from "../flows/log.ts";
import { loseParts } from "../flows/runs.ts";
import { DELETE_ALL_STEPS } from "../flows/steps.ts";
import { isVerificationQueue } from "../../../core/handler/verification.ts";
import { type Lane, laneName } from "../limits/lanes.ts";
import { numbers } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";
import type { Found } from "./find-task.ts";
import { cancelRuns } from "./follow-ends.ts";
import { freeGroups } from "./free-groups.ts";
import { deleteKeys } from "./keys.ts";
import { freeGroup, missVerdicts } from "./line.ts";

/**
 * Deletes tasks that are purged, discarded or dropped, with their ledgers. Tasks past their retention:
 * verbs/housekeeping.ts.
 */

/** Each once. */
function lanesOf(tasks: Found[]): Lane[] {
  const lanes = tasks.map(({ queue, groupKey }) => ({ queue: queue.id, groupKey: groupKey! }));
  return [...new Map(lanes.map((lane) => [laneName(lane), lane])).values()];
}

const REMOVE = [
  `DELETE FROM dibs.attempt WHERE task = ANY ($1::int8[])`,
  DELETE_LOGS,
  DELETE_ALL_STEPS,
  `DELETE FROM dibs.task WHERE seq = ANY ($1::int8[])`,
] as const;

/** Deletes tasks that were taken out of their states, and frees their keys and groups. */
export async function remove(tx: Tx, tasks: Found[]): Promise<void> {
  if (tasks.length === 0) return;
  const seqs = numbers(tasks.map(({ seq }) => seq));
  const runs = await loseParts(tx, tasks);
  await loseRelatives(tx, tasks);
  deleteKeys(
    tx,
    tasks.flatMap(({ queue, key, seq }) => (key === null ? [] : { queue: queue.id, key, task: seq })),
  );
  for (const sql of REMOVE) tx.send(sql, seqs);
  for (const task of tasks)
    if (task.blocksGroup && task.queue.limited) await freeGroup(tx, task.queue, task.groupKey!);
  const heads = tasks.filter((task) => task.blocksGroup && !task.queue.limited);
  await freeGroups(tx, lanesOf(heads));
  const asking = tasks.filter(({ queue }) => isVerificationQueue(queue.name));
  if (asking.length > 0)
    await missVerdicts(
      tx,
      asking.map(({ seq }) => seq),
    );
  await cancelRuns(tx, runs);
}
