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
