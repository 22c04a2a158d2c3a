import { becomeReady } from "./become-ready.ts";
import {
  DELETE_LANES,
  type Lane,
  laneColumns,
  laneFrom,
  laneName,
  type LaneRow,
  lanesListed,
  LISTED_LANES,
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

interface RisenRow extends LaneRow {
  rank: number;
  pos: number;
  task: number;
  failures: number;
}

// Rows are locked in one order everywhere, as those that are purged. A task that has failed may belong into the
// retry-elsewhere line: it stepped aside, or was imported.
const RISE = `
  WITH next AS MATERIALIZED (
    SELECT first.place
    FROM (${LISTED_LANES}) AS wanted
    CROSS JOIN LATERAL (
      SELECT ctid AS place FROM dibs.waiting
      WHERE waiting.queue = wanted.queue AND waiting.group_key = wanted.group_key COLLATE "C"
      ORDER BY pos LIMIT 1 FOR UPDATE) AS first
  ), risen AS (
    DELETE FROM dibs.waiting WHERE ctid = ANY (ARRAY (SELECT place FROM next))
    RETURNING queue, group_key, rank, pos, task, failures
  ), lined AS (
    INSERT INTO dibs.ready (queue, rank, pos, task, failures, special)
    SELECT queue, rank, pos, task, 0, true FROM risen WHERE failures = 0)
  SELECT queue, group_key, rank, pos, task, failures FROM risen`;

/** The heads of these have ended: the next ones take their turns. */
export async function freeGroups(tx: Tx, lanes: readonly Lane[]): Promise<void> {
  if (lanes.length === 0) return;
  for (const lane of await rise(tx, lanes)) tx.batch.idleLanes.set(laneName(lane), lane);
}

/** Answers those in which nobody waits. */
async function rise(tx: Tx, lanes: readonly Lane[]): Promise<Lane[]> {
  const rows = await tx.take<RisenRow>(RISE, ...laneColumns(lanes));
  const risen = new Set<string>();
  for (const row of rows) {
    const { rank, pos, failures } = row;
    const queue = tx.queues.of(row.queue);
    risen.add(laneName(laneFrom(row)));
    tx.counters.count(queue, "waiting", -1);
    if (failures > 0) {
      await becomeReady(tx, { queue, rank, pos, seq: row.task, failures, special: true });
      continue;
    }
    tx.floors.lower(queue, rank, pos);
    tx.counters.count(queue, "ready", 1);
    tx.batch.hintReady(queue);
  }
  return lanes.filter((lane) => !risen.has(laneName(lane)));
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
  const idle = locked.length > 0 ? await rise(tx, locked) : [];
  if (idle.length > 0) tx.put(DELETE_LANES, ...laneColumns(idle));
  const ours = new Set(locked.map(laneName));
  const busy = lanes.filter((lane) => !ours.has(laneName(lane)));
  if (busy.length === 0) return;
  tx.put(FREE_LATER, ...laneColumns(busy));
  tx.batch.noteInboxLeft();
}
