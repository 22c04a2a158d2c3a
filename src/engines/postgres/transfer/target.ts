import { parseTaskId, type TaskIdParts } from "../../../core/task/task-id.ts";
import type { Connection } from "../connection/connection.ts";

/** The store that records are written to, for import.ts and import-tasks.ts. */
export interface Target {
  link: Connection;
  /** The store's number. */
  salt: number;
  queues: Map<string, TargetQueue>;
}

export interface TargetQueue {
  id: number;
  /** It has a row in `gate`. */
  limited: boolean;
}

export function placeIn({ salt }: Target, id: string): TaskIdParts {
  return parseTaskId(id, salt)!;
}

const QUEUES = `
  SELECT id, name, EXISTS (SELECT 1 FROM dibs.gate WHERE gate.queue = queue.id) AS limited FROM dibs.queue`;

/** Reads the queues that are imported so far, in the open transaction. */
export async function openTarget(link: Connection): Promise<Target> {
  const [store] = await link.all<{ salt: number }>(`SELECT salt FROM dibs.store WHERE one = 1`);
  const rows = await link.all<TargetQueue & { name: string }>(QUEUES);
  const queues = new Map(rows.map(({ id, name, limited }) => [name, { id, limited }]));
  return { link, salt: store!.salt, queues };
}
