import type { EndState } from "../../../core/task.ts";
import type { Connection } from "../connection/connection.ts";

/**
 * What a transaction of the caller's that sees one moment only (REPEATABLE READ, SERIALIZABLE) cannot know: how it is now. Asked
 * on a connection of ours, which sees nothing of what that transaction has written.
 */
export interface ReadLatest {
  key(queue: number, key: string, now: number): Promise<KeyRow | undefined>;
  isHeld(task: number, fence: number): Promise<boolean>;
  /** How many steps and signals are kept for it. */
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

export function ownLook(ask: <T>(question: (link: Connection) => Promise<T>) => Promise<T>): ReadLatest {
  return {
    key: async (queue, key, now) => (await ask((link) => link.all<KeyRow>(KEY, queue, key, now)))[0],
    isHeld: async (task, fence) => (await ask((link) => link.all(IS_HELD, task, fence))).length > 0,
    steps: async (task) => (await ask((link) => link.all<{ count: number }>(STEPS, task)))[0]!.count,
  };
}
