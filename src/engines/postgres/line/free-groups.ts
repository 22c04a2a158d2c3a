import { promoteFirst } from "./enter-line.ts";
import {
  DELETE_LANES,
  type Lane,
  laneColumns,
  laneFrom,
  laneName,
  type LaneRow,
  lanesListed,
} from "../limits/lanes.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * What becomes of groups whose heads have ended, in queues without limits. Who comes to stand behind a head holds the group's
 * row shared until its commit (lanes.ts). To wait for all of these would take as many commits as there are processes that
 * add, and they would wait for us; so nobody does:
 *
 * - The first of those that are known to wait takes its place at once, and the row is not touched. Others that are about to
 *   come are added at the same moment, and have no order with it.
 * - Where nobody is known to wait, the row is removed at the end of the batch, when nothing is left that it could have to wait
 *   for: no two can wait for each other. Whoever is added by the same batch takes the group over until then.
 * - Where somebody is just about to stand behind the head that was, it is left to a batch that comes after that one's
 *   commit, by a note in the inbox.
 */

/** The heads of these have ended: the next ones take their turns. */
export async function freeGroups(tx: Tx, lanes: readonly Lane[]): Promise<void> {
  if (lanes.length === 0) return;
  for (const lane of await promoteFirst(tx, lanes)) tx.batch.idleLanes.set(laneName(lane), lane);
}

const LOCK = `
  SELECT lane.queue, lane.group_key
  FROM ${lanesListed("FOR UPDATE SKIP LOCKED")}`;
// Those that there are: the row of a queue that was dropped is gone.
const FREE_LATER = `
  INSERT INTO dibs.inbox (queue, group_key)
  SELECT lane.queue, lane.group_key FROM ${lanesListed()}`;

/** At the end of a batch, and before somebody counts who has groups. */
export async function forgetIdleLanes(tx: Tx): Promise<void> {
  if (tx.batch.idleLanes.size === 0) return;
  const lanes = [...tx.batch.idleLanes.values()];
  tx.batch.idleLanes.clear();
  const locked = (await tx.all<LaneRow>(LOCK, ...laneColumns(lanes))).map(laneFrom);
  // Whoever stood behind its head before we had it has committed, and is seen by now.
  const idle = locked.length > 0 ? await promoteFirst(tx, locked) : [];
  if (idle.length > 0) tx.put(DELETE_LANES, ...laneColumns(idle));
  const ours = new Set(locked.map(laneName));
  const busy = lanes.filter((lane) => !ours.has(laneName(lane)));
  if (busy.length === 0) return;
  tx.put(FREE_LATER, ...laneColumns(busy));
  tx.batch.noteInboxLeft();
}
