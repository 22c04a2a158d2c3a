import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** Which queues of a request have tasks; claim.ts calls it. */

/** To look into so few queues costs less than to find out which of them have tasks. */
const FEW = 4;

// In the order of the array.
const WITH_TASKS = `
  SELECT value, EXISTS (SELECT 1 FROM ready_elsewhere WHERE queue = value) FROM json_each(?)
  WHERE EXISTS (SELECT 1 FROM ready WHERE queue = value) OR EXISTS (SELECT 1 FROM ready_elsewhere WHERE queue = value)
  LIMIT 0 + ?`;

/** Queues to take tasks from, in the order of the request. */
interface QueuesWithTasks {
  queues: Queue[];
  /** The names behind these in the request. */
  behind: string[];
  /** The retry-elsewhere line may have tasks. */
  hasElsewhere(queue: Queue): boolean;
}

/** Mostly the first queues have tasks, and then all others need not be looked up. */
const LEAST_AT_ONCE = 64;

/**
 * The first queues that have tasks, at most `most`, and every queue with limits among these: it may have to be woken.
 * There may be none, and names behind.
 */
export function withTasks(tx: Tx, names: readonly string[], most: number): QueuesWithTasks {
  const first = names.slice(0, Math.max(2 * most, LEAST_AT_ONCE));
  const open = tx.queues.open(first);
  const plain = open.filter(({ limited }) => !limited);
  if (plain.length <= FEW)
    return { queues: open, behind: names.slice(first.length), hasElsewhere: () => true };
  const ids = JSON.stringify(plain.map(({ id }) => id));
  const rows = tx.rows<[queue: number, hasElsewhere: number]>(WITH_TASKS, ids, most);
  const found = new Map(rows);
  const last = rows.length < most ? undefined : tx.queues.of(rows.at(-1)![0]);
  const reach = last ? open.slice(0, open.indexOf(last) + 1) : open;
  return {
    queues: reach.filter(({ id, limited }) => limited || found.has(id)),
    behind: names.slice(last ? names.indexOf(last.name) + 1 : first.length),
    hasElsewhere: ({ id }) => found.get(id) === 1,
  };
}
