import type { ClaimRequest } from "../../../engine/claim-request.ts";
import { aboveFloor } from "../line/floors.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { newest } from "../statements/newest.ts";
import { numbers } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/** Parts of `claim` for requests with many queues; claim.ts calls it. */

/** A claim on one queue costs a round trip. Above so many queues, those that have tasks are found first. */
export const FEW = 4;

const hasTasks = (table: "ready" | "ready_elsewhere"): string =>
  `EXISTS (SELECT 1 FROM dibs.${table} WHERE ${table}.queue = wanted.queue AND ${aboveFloor("wanted.queue", table)})`;
// In the order of the array.
const WITH_TASKS = `
  SELECT queue, ${hasTasks("ready_elsewhere")} FROM unnest($1::int4[]) AS wanted (queue) WHERE ${hasTasks("ready")} OR ${hasTasks("ready_elsewhere")} LIMIT $2`;
// A queue with limits may be closed: every one that has tasks is tried.
const LIMITED_WITH_TASKS = `
  SELECT queue FROM unnest($1::int4[]) AS wanted (queue)
  WHERE ${hasTasks("ready")} OR ${hasTasks("ready_elsewhere")}
    OR EXISTS (SELECT 1 FROM dibs.ready_sticky WHERE ready_sticky.queue = wanted.queue OFFSET 0)
    OR EXISTS (SELECT 1 FROM dibs.gate WHERE ${newest("gate", "wanted.queue")} AND gate.reviewed IS NOT NULL)`;

/** Queues that have tasks, in the order of the request. */
export interface QueuesWithTasks {
  /** As many as the request could take from. */
  queues: Queue[];
  /** The names behind these in the request. */
  behind: string[];
  /** Those of them with tasks in the retry-elsewhere line. */
  retrying: ReadonlySet<Queue>;
}

/** The first queues of the request that have tasks. `reach`: how many it looks at. */
export async function withTasks(
  tx: Tx,
  { queues, max }: ClaimRequest,
  reach: number,
): Promise<QueuesWithTasks> {
  const first = queues.slice(0, reach);
  const open = tx.queues.open(first);
  const plain = open.filter(({ limited }) => !limited);
  const rows = await tx.rows<[queue: number, retrying: boolean]>(
    WITH_TASKS,
    numbers(plain.map(({ id }) => id)),
    max,
  );
  const last = rows.length < max ? undefined : tx.queues.of(rows.at(-1)![0]);
  const retrying = new Set(rows.filter(([, has]) => has).map(([id]) => tx.queues.of(id)));
  const found = new Set(rows.map(([id]) => id));
  const seen = last ? open.slice(0, open.indexOf(last) + 1) : open;
  const limited = seen.filter((queue) => queue.limited);
  if (limited.length > 0) {
    const more = await tx.rows<[queue: number]>(LIMITED_WITH_TASKS, numbers(limited.map(({ id }) => id)));
    for (const [id] of more) found.add(id);
  }
  return {
    queues: seen.filter(({ id }) => found.has(id)),
    behind: queues.slice(last ? queues.indexOf(last.name) + 1 : first.length),
    retrying,
  };
}
