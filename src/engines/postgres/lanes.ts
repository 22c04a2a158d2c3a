import { BOUNDS, type Op } from "../../engine/engine.ts";
import { numbers, toText } from "./text.ts";
import type { Tx } from "./tx.ts";

export interface Lane {
  queue: number;
  groupKey: string;
}

// In one order everywhere, so that two transactions do not wait for each other.
const TAKE = `
  INSERT INTO dibs.lane (queue, group_key)
  SELECT queue, group_key FROM unnest($1::int4[], $2::text[]) AS wanted (queue, group_key)
  ORDER BY queue, group_key COLLATE "C"
  ON CONFLICT DO NOTHING RETURNING queue, group_key`;
const STAND_BEHIND = `
  SELECT lane.queue, lane.group_key
  FROM unnest($1::int4[], $2::text[]) AS wanted (queue, group_key)
  JOIN dibs.lane ON lane.queue = wanted.queue AND lane.group_key = wanted.group_key COLLATE "C"
  ORDER BY lane.queue, lane.group_key FOR SHARE OF lane`;

/** For update, since the heads of some of them end. */
const LOCK = `
  SELECT 1 FROM (
    SELECT task.queue, task.group_key FROM unnest($1::int8[]) AS settled (seq)
    JOIN dibs.task ON task.seq = settled.seq WHERE task.group_key IS NOT NULL
    UNION
    SELECT queue.id, added.group_key FROM unnest($2::text[], $3::text[]) AS added (queue, group_key)
    JOIN dibs.queue ON queue.name = added.queue
    UNION
    SELECT due.queue, task.group_key FROM (
      SELECT queue, task FROM dibs.scheduled WHERE due <= $4 AND NOT holds_group ORDER BY due, task LIMIT $5
    ) AS due JOIN dibs.task ON task.seq = due.task WHERE task.group_key IS NOT NULL
  ) AS wanted (queue, group_key)
  JOIN dibs.lane ON lane.queue = wanted.queue AND lane.group_key = wanted.group_key COLLATE "C"
  WHERE wanted.queue <> ALL ($6::int4[])
  ORDER BY lane.queue, lane.group_key FOR UPDATE OF lane`;

/**
 * A batch that ends heads of groups, adds behind others and promotes what is due comes by their lanes one after another, in
 * the order of its operations: so it takes all of them first. Nobody waits for the answer.
 */
export function lockLanes(tx: Tx, ops: readonly Op[]): void {
  const settled = ops.flatMap((op) => (op.verb === "settle" ? seqsOf(tx, op) : []));
  const added = ops.flatMap((op) =>
    op.verb === "add" ? op.tasks.filter(({ groupKey }) => groupKey !== undefined) : [],
  );
  const sweeps = ops.some(({ verb }) => verb === "claim" || verb === "tend");
  const named = settled.length + added.length;
  if (named === 0 || named + (sweeps ? 1 : 0) < 2) return;
  const names = added.map(({ queue }) => toText(queue));
  const keys = added.map(({ groupKey }) => toText(groupKey!));
  // Of a queue with limits the gate is the lock.
  const limited = tx.hasLimits ? [...tx.queues].filter((queue) => queue.limited).map(({ id }) => id) : [];
  tx.send(LOCK, settled, names, keys, tx.now, sweeps ? BOUNDS.sweep : 0, numbers(limited));
}

/** A verdict ends another task, too. */
function seqsOf(tx: Tx, { id, settlement }: Op<"settle">): number[] {
  const ids = settlement.kind === "verdict" ? [id, settlement.of.id] : [id];
  return ids.flatMap((each) => tx.place(each)?.seq ?? []);
}

interface LaneRow {
  queue: number;
  group_key: string;
}

/**
 * Takes the groups that have no head; the heads of the others stay until the commit, so that whoever comes to stand
 * behind one is not overlooked when it ends. Each group is given once.
 */
export async function takeLanes(tx: Tx, lanes: Lane[]): Promise<{ taken: Lane[] }> {
  const taken: Lane[] = [];
  let open = lanes;
  while (open.length > 0) {
    const ours = await tx.take<LaneRow>(TAKE, ...columns(open));
    taken.push(...ours.map(laneFrom));
    open = without(open, ours);
    if (open.length === 0) break;
    // One that is gone between the two statements is free to be taken: its head has ended.
    open = without(open, await tx.all<LaneRow>(STAND_BEHIND, ...columns(open)));
  }
  return { taken };
}

export function laneName({ queue, groupKey }: Lane): string {
  return `${queue} ${groupKey}`;
}

function without(lanes: Lane[], rows: LaneRow[]): Lane[] {
  const names = new Set(rows.map((row) => laneName(laneFrom(row))));
  return lanes.filter((lane) => !names.has(laneName(lane)));
}

function laneFrom(row: LaneRow): Lane {
  return { queue: row.queue, groupKey: row.group_key };
}

function columns(lanes: Lane[]): [number[], string[]] {
  return [lanes.map(({ queue }) => queue), lanes.map(({ groupKey }) => groupKey)];
}
