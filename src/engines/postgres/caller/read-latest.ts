import type { EndState } from "../../../core/task/task.ts";
import type { Connection } from "../connection/connection.ts";

/**
 * Reads the latest state on a connection of ours. A caller's transaction with a fixed snapshot (REPEATABLE READ,
 * SERIALIZABLE) does not see it; and this connection does not see what that transaction has written.
 */
export interface ReadLatest {
  key(queue: number, key: string, now: number): Promise<KeyRow | undefined>;
  isHeld(task: number, fence: number): Promise<boolean>;
  /** The number of its steps and signals. */
  steps(task: number): Promise<number>;
}

export interface KeyRow {
  task: string;
  created_at: string;
  state: EndState | null;
}

export const KEY = `
  SELECT task::text, created_at::text, state FROM dibs.idempotency
  WHERE queue = $1::int4 AND key = $2 AND (forget_at IS NULL OR forget_at > $3::int8)`;
export const STEPS = `SELECT count(*)::int4 AS count FROM dibs.step WHERE task = $1::int8`;
const IS_HELD = `SELECT 1 FROM dibs.claim WHERE task = $1::int8 AND fence = $2::int8`;

export function readLatestOn(query: <T>(work: (link: Connection) => Promise<T>) => Promise<T>): ReadLatest {
  return {
    key: async (queue, key, now) => (await query((link) => link.all<KeyRow>(KEY, queue, key, now)))[0],
    isHeld: async (task, fence) => (await query((link) => link.all(IS_HELD, task, fence))).length > 0,
    steps: async (task) => (await query((link) => link.all<{ count: number }>(STEPS, task)))[0]!.count,
  };
}
