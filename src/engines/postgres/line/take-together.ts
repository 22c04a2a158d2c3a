import { isVerificationQueue } from "../../../core/handler/verification.ts";
import { cancelRuns } from "./follow-ends.ts";
import { freeGroups } from "./free-groups.ts";
import { type Lane, laneName } from "../limits/lanes.ts";
import { deleteKeys } from "./keys.ts";
import { freeGroup, missVerdicts } from "./line.ts";
import { type By, deleteEach, lookUp } from "../statements/look-up.ts";
import type { Line } from "./enter-line.ts";
import { type Found, isPending } from "./find-task.ts";
import { loseRelatives } from "../flows/children.ts";
import { keepEnds, loseParts } from "../flows/runs.ts";
import { DELETE_LOGS } from "../flows/log.ts";
import { DELETE_ALL_STEPS } from "../flows/steps.ts";
import { signalOf } from "./take-out.ts";
import { numbers } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/** A state from which tasks can be taken in bulk. */
type Spot = Line | "scheduled" | "waiting" | "verifying" | "dead" | "ended";

interface Take {
  /** Locks the rows of a list that are still there. */
  lock: string;
  /** Deletes them. */
  take: string;
}

/** Rows are locked in the `order` of the table's key, as everywhere. */
const takeEach = (table: Spot, list: string, order: string, by: By, also?: string): Take => {
  const row = { columns: "1", lock: "FOR UPDATE NOWAIT", ...(also !== undefined && { also }) } as const;
  return {
    lock: `SELECT 1 FROM (SELECT * FROM ${list} ORDER BY ${order}) AS wanted CROSS JOIN ${lookUp(table, by, row)}`,
    take: `${deleteEach(table, list, by, also)} RETURNING task`,
  };
};
const BY_PLACE = (table: Line): Take => {
  const list = `unnest($1::int4[], $2::int2[], $3::int8[]) AS wanted (queue, rank, pos)`;
  const by = { queue: "wanted.queue", rank: "wanted.rank", pos: "wanted.pos" };
  return takeEach(table, list, "queue, rank, pos", by);
};
const BY_TASK = (table: "verifying" | "dead" | "ended"): Take =>
  takeEach(table, `unnest($1::int8[]) AS wanted (task)`, "task", { task: "wanted.task" });
const TAKE: Record<Spot, Take> = {
  ready: BY_PLACE("ready"),
  ready_elsewhere: BY_PLACE("ready_elsewhere"),
  ready_sticky: BY_PLACE("ready_sticky"),
  scheduled: takeEach(
    "scheduled",
    `unnest($1::int4[], $2::int8[], $3::int8[], $4::text[]) AS wanted (queue, pos, due, signal)`,
    "queue, pos",
    { queue: "wanted.queue", pos: "wanted.pos" },
    `scheduled.due IS NOT DISTINCT FROM wanted.due AND scheduled.signal IS NOT DISTINCT FROM wanted.signal`,
  ),
  waiting: takeEach(
    "waiting",
    `unnest($1::int4[], $2::text[], $3::int8[]) AS wanted (queue, group_key, pos)`,
    `queue, group_key COLLATE "C", pos`,
    `waiting.queue = wanted.queue AND waiting.group_key = wanted.group_key COLLATE "C" AND waiting.pos = wanted.pos`,
  ),
  verifying: BY_TASK("verifying"),
  dead: BY_TASK("dead"),
  ended: BY_TASK("ended"),
};
const DELETE_STEPPED_ASIDE = `DELETE FROM dibs.stepped_aside WHERE task = ANY ($1::int8[])`;
const UNWATCH = deleteEach(
  "ttl",
  `unnest($1::int8[], $2::int8[]) AS wanted (expires_at, task)`,
  `ttl.expires_at = wanted.expires_at AND ttl.task = wanted.task`,
);

function spotOf({ place }: Found): Spot | undefined {
  switch (place.state) {
    case "claimed":
      return undefined;
    case "ready":
      return place.table;
    case "parked":
      return "scheduled";
    case "done":
    case "cancelled":
    case "expired":
      return "ended";
    default:
      return place.state;
  }
}

/**
 * Takes tasks out of their states, with one statement for each state. Tasks that have moved meanwhile, and claimed
 * ones, are `missed`. It does not free groups. Both lists are in the given order.
 */
export async function takeTogether(tx: Tx, found: Found[]): Promise<{ taken: Found[]; missed: Found[] }> {
  const seqs = new Set<number>();
  for (const [spot, tasks] of Map.groupBy(found, spotOf)) {
    if (spot === undefined) continue;
    const keys = keysOf(spot, tasks);
    await tx.lock(TAKE[spot].lock, keys);
    if (spot === "ended")
      keepEnds(
        tx,
        tasks.map(({ seq }) => seq),
      );
    for (const { task } of await tx.take<{ task: number }>(TAKE[spot].take, ...keys)) seqs.add(task);
  }
  const taken = found.filter(({ seq }) => seqs.has(seq));
  for (const { queue, place, groupKey } of taken) {
    tx.counters.count(queue, place.state, -1);
    if (place.state === "ready") tx.limits.movedInLine(queue, groupKey, -1);
  }
  const aside = taken.filter(
    ({ place, groupKey, blocksGroup }) => place.state === "verifying" && groupKey !== null && !blocksGroup,
  );
  if (aside.length > 0) tx.send(DELETE_STEPPED_ASIDE, seqsOf(aside));
  const mortal = taken.filter((task) => task.expiresAt !== null && isPending(task));
  if (mortal.length > 0) tx.send(UNWATCH, numbers(mortal.map((task) => task.expiresAt!)), seqsOf(mortal));
  return { taken, missed: found.filter(({ seq }) => !seqs.has(seq)) };
}

function keysOf(spot: Spot, tasks: Found[]): (string | (string | null)[])[] {
  const queues = numbers(tasks.map(({ queue }) => queue.id));
  const places = numbers(tasks.map(({ pos }) => pos));
  switch (spot) {
    case "ready":
    case "ready_elsewhere":
    case "ready_sticky":
      return [queues, numbers(tasks.map(({ rank }) => rank)), numbers(tasks.map(placeInLine))];
    case "scheduled":
      return [queues, places, numbers(tasks.map(dueOf)), tasks.map(({ place }) => signalOf(place))];
    case "waiting":
      return [queues, tasks.map(({ groupKey }) => groupKey!), places];
    default:
      return [seqsOf(tasks)];
  }
}

function dueOf({ place }: Found): number {
  return "due" in place ? place.due : 0;
}

function placeInLine({ place, pos }: Found): number {
  return place.state === "ready" ? place.pos : pos;
}

function seqsOf(tasks: Found[]): string {
  return numbers(tasks.map(({ seq }) => seq));
}

/** Each once. */
function lanesOf(tasks: Found[]): Lane[] {
  const lanes = tasks.map(({ queue, groupKey }) => ({ queue: queue.id, groupKey: groupKey! }));
  return [...new Map(lanes.map((lane) => [laneName(lane), lane])).values()];
}

const REMOVE = [
  `DELETE FROM dibs.attempt WHERE task = ANY ($1::int8[])`,
  DELETE_LOGS,
  DELETE_ALL_STEPS,
  `DELETE FROM dibs.task WHERE seq = ANY ($1::int8[])`,
] as const;

/** Deletes tasks that were taken out of their states, and frees their keys and groups. */
export async function removeTogether(tx: Tx, tasks: Found[]): Promise<void> {
  if (tasks.length === 0) return;
  const runs = await loseParts(tx, tasks);
  await loseRelatives(tx, tasks);
  deleteKeys(tx, tasks);
  for (const sql of REMOVE) tx.send(sql, seqsOf(tasks));
  for (const task of tasks)
    if (task.blocksGroup && task.queue.limited) await freeGroup(tx, task.queue, task.groupKey!);
  const heads = tasks.filter((task) => task.blocksGroup && !task.queue.limited);
  await freeGroups(tx, lanesOf(heads));
  const asking = tasks.filter(({ queue }) => isVerificationQueue(queue.name));
  if (asking.length > 0)
    await missVerdicts(
      tx,
      asking.map(({ seq }) => seq),
    );
  await cancelRuns(tx, runs);
}
