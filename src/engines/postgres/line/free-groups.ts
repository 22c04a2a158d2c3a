import { promoteFirst } from "./enter-line.ts";
import {
  DELETE_LANES,
  type Lane,
  laneColumns,
  laneFrom,
  laneName,
  type LaneRow,
  lanesListed,
  placesOf,
} from "../limits/lanes.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * Frees groups whose heads have ended, in queues without limits. A transaction that adds a task behind a head holds the
 * lane's row FOR SHARE until its commit (lanes.ts). To wait for all of them would take as many commits as there are
 * adding processes, which in turn would wait for this transaction. So no transaction waits:
 *
 * - The first waiting task is promoted at once, and the lane's row is not touched. Tasks of transactions in progress
 *   are concurrent with it, and have no order.
 * - If no task is known to wait, the lane's row is deleted at the end of the batch, when the batch waits for nothing
 *   else, so no deadlock is possible. A task that the same batch adds before that takes the lane over.
 * - If another transaction is adding a task behind the old head, an inbox entry leaves the lane to a batch after its
 *   commit.
 */

/** The heads of these groups have ended. */
export async function freeGroups(tx: Tx, lanes: readonly Lane[]): Promise<void> {
  if (lanes.length === 0) return;
  for (const lane of await promoteFirst(tx, lanes)) tx.batch.idleLanes.set(laneName(lane), lane);
}

const LOCK = `
  SELECT lane.queue, lane.group_key
  FROM ${lanesListed("FOR UPDATE SKIP LOCKED")}`;
// Only lanes that exist: a dropped queue has none.
const FREE_LATER = `
  INSERT INTO dibs.inbox (queue, group_key)
  SELECT lane.queue, lane.group_key FROM ${lanesListed()}`;

/** At the end of a batch, and before lanes are counted. */
export async function forgetIdleLanes(tx: Tx): Promise<void> {
  if (tx.batch.idleLanes.size === 0) return;
  const lanes = [...tx.batch.idleLanes.values()];
  tx.batch.idleLanes.clear();
  const locked = (await tx.all<LaneRow>(LOCK, ...laneColumns(lanes))).map(laneFrom);
  if (locked.length > 0) tx.batch.inserts.comeNext(placesOf(locked));
  // Transactions that added behind the old head before the lock have committed, so their tasks are visible now.
  const idle = locked.length > 0 ? await promoteFirst(tx, locked) : [];
  if (idle.length > 0) tx.put(DELETE_LANES, ...laneColumns(idle));
  const ours = new Set(locked.map(laneName));
  const busy = lanes.filter((lane) => !ours.has(laneName(lane)));
  if (busy.length === 0) return;
  tx.put(FREE_LATER, ...laneColumns(busy));
  tx.batch.noteInboxLeft();
}
