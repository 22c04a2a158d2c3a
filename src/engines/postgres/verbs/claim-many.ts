import type { ClaimRequest } from "../../../engine/engine.ts";
import { holdAhead } from "./claim-head.ts";
import { aboveFloor } from "../line/floors.ts";
import type { Queue } from "../transaction/known-queues.ts";
import { newest } from "../statements/newest.ts";
import { numbers } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/** To ask each queue by itself costs a round trip: above so many, those that have something are found first. */
export const FEW = 4;

const hasTasks = (table: "ready" | "kept"): string =>
  `EXISTS (SELECT 1 FROM dibs.${table} WHERE ${table}.queue = wanted.queue AND ${aboveFloor("wanted.queue", table)})`;
// In the order of the array.
const WITH_TASKS = `
  SELECT queue FROM unnest($1::int4[]) AS wanted (queue) WHERE ${hasTasks("ready")} OR ${hasTasks("kept")} LIMIT $2`;
// Of those with limits any may be closed: each that has something is asked.
const LIMITED_WITH_TASKS = `
  SELECT queue FROM unnest($1::int4[]) AS wanted (queue)
  WHERE ${hasTasks("ready")} OR ${hasTasks("kept")}
    OR EXISTS (SELECT 1 FROM dibs.own WHERE own.queue = wanted.queue OFFSET 0)
    OR EXISTS (SELECT 1 FROM dibs.gate WHERE ${newest("gate", "wanted.queue")} AND gate.reviewed IS NOT NULL)`;

/** The first of the queues that have something, in the order of the request and as many as it could take from; and those behind them. */
export async function withTasks(
  tx: Tx,
  { queues, max }: ClaimRequest,
): Promise<{ queues: Queue[]; behind: string[] }> {
  const open = queues.flatMap((name) => tx.queues.named(name) ?? []).filter((queue) => !queue.paused);
  const plain = open.filter(({ limited }) => !limited);
  const rows = await tx.rows<[queue: number]>(WITH_TASKS, numbers(plain.map(({ id }) => id)), max);
  const last = rows.length < max ? undefined : tx.queues.of(rows.at(-1)![0]);
  const reach = last ? open.slice(0, open.indexOf(last) + 1) : open;
  const limited = reach.filter((queue) => queue.limited);
  if (limited.length > 0)
    rows.push(...(await tx.rows<[queue: number]>(LIMITED_WITH_TASKS, numbers(limited.map(({ id }) => id)))));
  const found = new Set(rows.map(([id]) => id));
  return {
    queues: reach.filter(({ id }) => found.has(id)),
    behind: last ? queues.slice(queues.indexOf(last.name) + 1) : [],
  };
}

/**
 * Sends the claims on the first queues on their way: as many as certainly get their whole share, and not beyond one with
 * limits, which has to be asked first.
 */
export function shareAhead(tx: Tx, request: ClaimRequest, queues: readonly Queue[], share: number): void {
  for (const queue of queues.slice(0, Math.floor(request.max / share))) {
    if (queue.limited) return;
    holdAhead(tx, request, queue, share);
  }
}
