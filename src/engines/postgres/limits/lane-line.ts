import { governsGroups, groupOrder, putsUrgentFirst } from "../../../core/queue/policy.ts";
import { earliestStart } from "../../../core/queue/rate.ts";
import { FIRST_RANK } from "../../../core/task/task.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { wait } from "./lanes.ts";
import type { Lane } from "./limits.ts";
import { deleteEach, lookUp, TASK_OF } from "../statements/look-up.ts";
import { newest } from "../statements/newest.ts";
import { enterLine, type Line } from "../line/enter-line.ts";
import { numbers } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/** Decides which tasks of a group are in the line, in a queue with limits. The caller holds the queue's gate (limits.ts). */

/** A task that waits behind others of its group, or is about to. */
export interface Waiter {
  key: string;
  task: number;
  pos: number;
  rank: number;
  failures: number;
  cost: number | null;
  /** It has a row in `waiting`; false for one that has just come. */
  waits: boolean;
  /** It was promoted. */
  isPromoted: boolean;
}

/** A task that enters the line at `linePos`: its own position, or the last one if groups rotate. */
export interface PromotedTask {
  lane: Lane;
  waiter: Waiter;
  linePos: number;
}

/**
 * How many more tasks of a group may enter the line, without regard to its rate. Not maxInLine() of core: `line` is read
 * only if the policy needs it, and is below 0 after tasks have left the line otherwise.
 */
function roomIn({ queue, key, holders, line }: Lane): number {
  const { concurrency, rateLimit, fair, weight } = queue.policy.groups;
  let room = concurrency - holders;
  // With a rate, one task at a time is in the line: the meter counts a task only when it is claimed.
  if (rateLimit.length > 0) room = Math.min(room, 1 - line);
  if (fair) room = Math.min(room, (Object.hasOwn(weight, key) ? weight[key]! : 1) - line);
  return Math.max(0, room);
}

const OF_LANE = (where = ""): string => `
    SELECT task, pos, rank, failures FROM dibs.waiting
    WHERE queue = $1 AND group_key = wanted.key COLLATE "C" ${where} ORDER BY pos LIMIT wanted.most FOR UPDATE NOWAIT`;
const FIRST = (waiting: string): string => `
  SELECT wanted.key, waiting.task, waiting.pos, waiting.rank, waiting.failures, task.cost, true AS waits, false AS "isPromoted"
  FROM (SELECT * FROM unnest($2::text[], $3::int4[]) AS listed (key, most) ORDER BY key COLLATE "C") AS wanted
  CROSS JOIN LATERAL (${waiting}) AS waiting
  CROSS JOIN ${TASK_OF("waiting")}`;
const FIRST_WAITING = FIRST(OF_LANE());
const FIRST_URGENT_WAITING = FIRST(`
  SELECT * FROM (${OF_LANE(`AND rank < ${FIRST_RANK}`)}) AS urgent
  UNION ALL SELECT * FROM (${OF_LANE(`AND rank >= ${FIRST_RANK}`)}) AS other`);

/** The first waiting tasks of each lane, as many as may be promoted. */
async function firstWaiting(tx: Tx, queue: Queue, lanes: readonly Lane[]): Promise<Map<string, Waiter[]>> {
  const open = lanes.filter((lane) => roomIn(lane) > 0);
  if (open.length === 0) return new Map();
  const sql = putsUrgentFirst(queue.policy) ? FIRST_URGENT_WAITING : FIRST_WAITING;
  const values = [queue.id, open.map(({ key }) => key), numbers(open.map(roomIn))];
  const rows = await tx.lock<Waiter>(sql, values);
  rows.sort(groupOrder(queue.policy));
  return Map.groupBy(rows, ({ key }) => key);
}

/** Promotes the first of `waiting` as far as there is room. If only time can make room, the lane gets a wake time. */
function promoteFrom(tx: Tx, lane: Lane, waiting: Waiter[]): PromotedTask[] {
  const { rateLimit } = lane.queue.policy.groups;
  const time = tx.limits.timeFor(rateLimit, lane.meter);
  const promoted: PromotedTask[] = [];
  for (;;) {
    const [next] = waiting;
    const at =
      next && roomIn(lane) > 0
        ? Math.max(lane.heldUntil, earliestStart(rateLimit, lane.meter, next.cost ?? 1, time))
        : null;
    if (!next || at === null || at > tx.now) {
      tx.limits.wakeAt(lane, at);
      return promoted;
    }
    waiting.shift();
    lane.holders++;
    lane.line++;
    next.isPromoted = true;
    promoted.push({ lane, waiter: next, linePos: next.pos });
  }
}

/** Promotes the next tasks of groups, lane after lane. */
export async function fillLanes(tx: Tx, queue: Queue, keys: readonly string[]): Promise<void> {
  const lanes = await tx.limits.lanes(queue, [...new Set(keys)]);
  const waiting = await firstWaiting(tx, queue, lanes);
  const promoted = lanes.flatMap((lane) => promoteFrom(tx, lane, waiting.get(lane.key) ?? []));
  await assignPositions(tx, queue, promoted);
  await enterLineOfLanes(tx, queue, promoted);
}

/** If groups rotate, promoted tasks get the last positions. */
export async function assignPositions(
  tx: Tx,
  queue: Queue,
  promoted: readonly PromotedTask[],
): Promise<void> {
  if (!queue.policy.groups.fair) return;
  const positions = await tx.numbers("seq", promoted.length);
  for (const [index, each] of promoted.entries()) each.linePos = positions[index]!;
}

/**
 * Tasks join their groups one after the other. Returns for each joiner the tasks that are promoted when it joins: itself,
 * others or none. Nothing is written. The joiners have no rows yet. New ones may have no number yet; they are behind all
 * others.
 */
export async function joinLanes(tx: Tx, queue: Queue, joiners: readonly Waiter[]): Promise<PromotedTask[][]> {
  const keys = [...new Set(joiners.map(({ key }) => key))];
  const lanes = new Map((await tx.limits.lanes(queue, keys)).map((lane) => [lane.key, lane]));
  const waiting = await firstWaiting(tx, queue, [...lanes.values()]);
  const order = groupOrder(queue.policy);
  return joiners.map((joiner) => {
    const others = waiting.get(joiner.key) ?? [];
    waiting.set(joiner.key, others);
    const behind = others.findIndex((other) => order(other, joiner) > 0);
    others.splice(behind < 0 ? others.length : behind, 0, joiner);
    return promoteFrom(tx, lanes.get(joiner.key)!, others);
  });
}

const TAKE_WAITING = deleteEach(
  "waiting",
  `unnest($2::text[], $3::int8[]) AS old (group_key, pos)`,
  `waiting.queue = $1 AND waiting.group_key = old.group_key COLLATE "C" AND waiting.pos = old.pos`,
);
/** Promoted tasks enter the line, and their rows in `waiting` are deleted. */
export async function enterLineOfLanes(
  tx: Tx,
  queue: Queue,
  promoted: readonly PromotedTask[],
): Promise<void> {
  if (promoted.length === 0) return;
  tx.limits.promotions += promoted.length;
  const stored = promoted.filter(({ waiter }) => waiter.waits).map(({ waiter }) => waiter);
  if (stored.length > 0) {
    tx.send(
      TAKE_WAITING,
      queue.id,
      stored.map(({ key }) => key),
      numbers(stored.map(({ pos }) => pos)),
    );
    tx.counters.count(queue, "waiting", -stored.length);
  }
  const owners = await ownersAmong(tx, queue, promoted);
  await enterLine(
    tx,
    promoted.map(
      ({ waiter: { task: seq, rank, failures, key: laneKey }, linePos: pos, lane: { session } }) => ({
        ...{ queue, rank, pos, seq, failures, special: true, laneKey },
        sticksTo: session !== null && owners.has(session) ? session : null,
      }),
    ),
  );
}

const LIVE_OWNERS = `
  SELECT session.id FROM dibs.serving JOIN dibs.session ON ${newest("session", "serving.session")}
  WHERE serving.queue = $1 AND serving.session = ANY ($2::int8[]) AND session.heartbeat_at + session.lease > $3`;

/** The live sessions that the lanes are sticky to, and that serve the queue. */
async function ownersAmong(tx: Tx, queue: Queue, promoted: readonly PromotedTask[]): Promise<Set<number>> {
  if (!queue.policy.groups.sticky) return new Set();
  const sessions = [...new Set(promoted.flatMap(({ lane }) => lane.session ?? []))];
  if (sessions.length === 0) return new Set();
  const rows = await tx.all<{ id: number }>(LIVE_OWNERS, queue.name, numbers(sessions), tx.now);
  return new Set(rows.map(({ id }) => id));
}

/** What a task needs to join its group. */
export interface Joining {
  seq: number;
  queue: Queue;
  groupKey: string | null;
  pos: number;
  rank: number;
  failures: number;
  cost: number | null;
  blocksGroup: boolean;
}

/**
 * A task enters the line, or waits in its group. A task that is a head (`blocksGroup`) gives up its slot first, and then
 * joins its group like a new one.
 */
export async function enterLane(tx: Tx, task: Joining): Promise<"ready" | "waiting"> {
  const { queue, groupKey, seq, pos, rank, failures, cost } = task;
  const lane = await tx.limits.lane(queue, groupKey!);
  const waiter = { key: groupKey!, task: seq, pos, rank, failures, cost, waits: false, isPromoted: false };
  // The only head of a strict group keeps its slot, and is the next task again.
  if (task.blocksGroup && lane.holders === 1 && !governsGroups(queue.policy)) {
    lane.line++;
    await enterLineOfLanes(tx, queue, [{ lane, waiter, linePos: pos }]);
    return "ready";
  }
  if (task.blocksGroup) giveUp(lane);
  task.blocksGroup = false;
  const promoted = (await joinLanes(tx, queue, [waiter])).flat();
  if (waiter.isPromoted) task.blocksGroup = true;
  else wait(tx, task);
  await assignPositions(tx, queue, promoted);
  await enterLineOfLanes(tx, queue, promoted);
  return waiter.isPromoted ? "ready" : "waiting";
}

function giveUp(lane: Lane): void {
  lane.holders--;
}

/** A head of the group has ended or left: its slot is free. */
export async function giveUpLane(tx: Tx, queue: Queue, key: string): Promise<void> {
  giveUp(await tx.limits.lane(queue, key));
}

/** Like `giveUpLane`, and promotes the next tasks of the group. */
export async function leaveLane(tx: Tx, queue: Queue, key: string): Promise<void> {
  await giveUpLane(tx, queue, key);
  await fillLanes(tx, queue, [key]);
}

const IN_LANE = (table: string): string =>
  `SELECT 1 FROM dibs.${table} WHERE queue = $1 AND group_key = $2 ORDER BY task FOR UPDATE NOWAIT`;
const OUT_OF_LINE = (table: string): string => `
  DELETE FROM dibs.${table} WHERE queue = $1 AND group_key = $2 RETURNING task, rank, failures`;
const WAIT_AGAIN = `
  INSERT INTO dibs.waiting (queue, group_key, pos, task, rank, failures)
  SELECT $1, $2, coalesce(task.pos, task.seq), each.task, each.rank, each.failures
  FROM unnest($3::int8[], $4::int2[], $5::int2[]) AS each (task, rank, failures)
  CROSS JOIN ${TASK_OF("each")}`;

/** No task of the group starts for `delay`. Its tasks in the line leave it, and wait. */
export async function holdLane(tx: Tx, queue: Queue, key: string, delay: number): Promise<void> {
  const lane = await tx.limits.lane(queue, key);
  lane.heldUntil = Math.max(lane.heldUntil, tx.now + delay);
  const rows: { task: number; rank: number; failures: number }[] = [];
  // `ready` comes last: a sweep, which does not need the gate, may meanwhile move tasks from `ready_elsewhere` to
  // `ready`, and they are found there then.
  for (const table of ["ready_elsewhere", "ready_sticky", "ready"]) {
    await tx.lock(IN_LANE(table), [queue.id, key]);
    rows.push(...(await tx.take<(typeof rows)[0]>(OUT_OF_LINE(table), queue.id, key)));
  }
  if (rows.length === 0) return;
  tx.send(
    WAIT_AGAIN,
    queue.id,
    key,
    numbers(rows.map(({ task }) => task)),
    numbers(rows.map(({ rank }) => rank)),
    numbers(rows.map(({ failures }) => failures)),
  );
  lane.holders -= rows.length;
  lane.line = 0;
  tx.counters.count(queue, "ready", -rows.length);
  tx.counters.count(queue, "waiting", rows.length);
}

/** A task of a group in the line. */
export interface InLine {
  table: Line;
  key: string;
  rank: number;
  linePos: number;
  task: number;
  pos: number;
  cost: number | null;
}

const IN_LINE = (["ready", "ready_elsewhere", "ready_sticky"] as const)
  .map(
    (table) => `
  SELECT '${table}' AS "table", wanted.key, ${table}.rank, ${table}.pos AS "linePos", ${table}.task,
    coalesce(task.pos, task.seq) AS pos, task.cost
  FROM unnest($2::text[]) AS wanted (key)
  CROSS JOIN ${lookUp(table, `${table}.queue = $1 AND ${table}.group_key = wanted.key COLLATE "C"`)}
  CROSS JOIN ${TASK_OF(table)}`,
  )
  .join(" UNION ALL");

export async function inLineOf(tx: Tx, queue: Queue, keys: readonly string[]): Promise<InLine[]> {
  return tx.all<InLine>(IN_LINE, queue.id, [...keys]);
}

const LINE_TO_WAITING = (table: Line): string => `
  WITH old AS (
    ${deleteEach(table, `unnest($2::int2[], $3::int8[]) AS wanted (rank, pos)`, {
      queue: "$1",
      rank: "wanted.rank",
      pos: "wanted.pos",
    })}
    RETURNING group_key, task, rank, failures)
  INSERT INTO dibs.waiting (queue, group_key, pos, task, rank, failures)
  SELECT $1, old.group_key, coalesce(task.pos, task.seq), old.task, old.rank, old.failures
  FROM old CROSS JOIN ${TASK_OF("old")} RETURNING group_key, task`;

/** Tasks leave the line, and wait again. */
export async function removeFromLine(tx: Tx, queue: Queue, rows: readonly InLine[]): Promise<void> {
  const left = new Map(rows.map((row) => [row.task, row]));
  // `ready` comes last, and is searched for all tasks that were not found: a sweep, which does not need the gate, may
  // meanwhile move tasks from `ready_elsewhere` to `ready`.
  for (const table of ["ready_elsewhere", "ready_sticky", "ready"] as const) {
    const wanted = [...left.values()].filter((row) => table === "ready" || row.table === table);
    if (wanted.length === 0) continue;
    const ranks = numbers(wanted.map(({ rank }) => rank));
    const positions = numbers(wanted.map(({ linePos }) => linePos));
    const removed = await tx.take<{ group_key: string; task: number }>(
      LINE_TO_WAITING(table),
      queue.id,
      ranks,
      positions,
    );
    for (const { group_key: key, task } of removed) {
      left.delete(task);
      giveUp(await tx.limits.lane(queue, key));
      tx.limits.movedInLine(queue, key, -1);
    }
    tx.counters.count(queue, "ready", -removed.length);
    tx.counters.count(queue, "waiting", removed.length);
  }
}
