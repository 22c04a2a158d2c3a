import { governsGroups } from "../../core/policy.ts";
import { isOver, type Meter, opensAt, spend } from "../../core/rate.ts";
import type { Mover } from "./line.ts";
import { becomeReady } from "./ready.ts";
import { COUNTED, HEADS, type Lanes, type Queue, type Tx } from "./tx.ts";

/** Who may stand in line, group by group, in queues whose lanes are more than heads: see `Lanes` in tx.ts. */
export interface Lane {
  queue: Queue;
  key: string;
  /** So many of it stand in line, are claimed, or have the others wait for them otherwise. */
  holders: number;
  /** The numbers of those in line, where they are counted. */
  line: number[];
  /** Of the worker that had the last one, where groups are sticky. */
  session: number | null;
  meter: Meter;
  /** Nothing of it starts before: somebody met a limit of somebody else's. */
  heldUntil: number;
  /** When somebody has to look whether more may start; null: other things will tell. */
  wakeAt: number | null;
  /** As it is stored; undefined: it is not. */
  row: LaneRow | undefined;
}

interface LaneRow {
  holders: number;
  line: string | null;
  session: number | null;
  meter: string | null;
  held_until: number | null;
  wake_at: number | null;
}

const LANE = `
  SELECT holders, line, session, meter, held_until, wake_at FROM lane WHERE queue = ? AND group_key = ?`;
const INSERT_LANE = `
  INSERT INTO lane (holders, line, session, meter, held_until, wake_at, queue, group_key)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;
const UPDATE_LANE = `
  UPDATE lane SET holders = ?, line = ?, session = ?, meter = ?, held_until = ?, wake_at = ?
  WHERE queue = ? AND group_key = ?`;
const DELETE_LANE = `DELETE FROM lane WHERE queue = ? AND group_key = ?`;

export function findLane(tx: Tx, queue: Queue, key: string): Lane {
  const row = tx.get<LaneRow>(LANE, queue.id, key);
  return {
    queue,
    key,
    holders: row?.holders ?? 0,
    line: row?.line == null ? [] : (JSON.parse(row.line) as number[]),
    session: row?.session ?? null,
    meter: meterFrom(row?.meter),
    heldUntil: row?.held_until ?? 0,
    wakeAt: row?.wake_at ?? null,
    row,
  };
}

export function meterFrom(text: string | null | undefined): Meter {
  return text == null ? [] : (JSON.parse(text) as Meter);
}

/** As it is stored: null for one that has seen nothing. */
export function meterText(meter: Meter): string | null {
  return meter.length === 0 ? null : JSON.stringify(meter);
}

/** An empty one, which nobody holds or waits in, is kept only for what it remembers. */
export function saveLane(tx: Tx, lane: Lane, isEmpty = false): void {
  const { queue, key, row } = lane;
  if (isEmpty && lane.holders === 0 && !remembers(tx, lane)) {
    if (row) tx.run(DELETE_LANE, queue.id, key);
    return;
  }
  const next: LaneRow = {
    holders: lane.holders,
    line: lane.line.length === 0 ? null : JSON.stringify(lane.line),
    session: lane.session,
    meter: meterText(lane.meter),
    held_until: lane.heldUntil > tx.now ? lane.heldUntil : null,
    wake_at: lane.wakeAt,
  };
  if (row && isSame(row, next)) return;
  const { holders, line, session, meter, held_until: heldUntil, wake_at: wakeAt } = next;
  tx.run(row ? UPDATE_LANE : INSERT_LANE, holders, line, session, meter, heldUntil, wakeAt, queue.id, key);
  lane.row = next;
}

function isSame(a: LaneRow, b: LaneRow): boolean {
  return (
    a.holders === b.holders &&
    a.line === b.line &&
    a.session === b.session &&
    a.meter === b.meter &&
    a.held_until === b.held_until &&
    a.wake_at === b.wake_at
  );
}

function remembers(tx: Tx, { queue, session, meter, heldUntil }: Lane): boolean {
  return session !== null || heldUntil > tx.now || !isOver(queue.policy.groups.rateLimit, meter, tx.now);
}

interface WaitingRow {
  pos: number;
  task: number;
  rank: number;
  failures: number;
}

const FIRST_WAITING = `
  SELECT pos, task, rank, failures FROM waiting WHERE queue = ? AND group_key = ? ORDER BY pos LIMIT 1`;
const DELETE_WAITING = `DELETE FROM waiting WHERE queue = ? AND group_key = ? AND pos = ?`;
const INSERT_WAITING = `
  INSERT INTO waiting (queue, group_key, pos, task, rank, failures) VALUES (?, ?, ?, ?, ?, ?)`;

/** Stands behind the head of its group. */
export function wait(tx: Tx, task: Mover): void {
  tx.run(INSERT_WAITING, task.queue.id, task.groupKey, task.pos, task.seq, task.rank, task.failures);
  tx.count(task.queue, "waiting", 1);
}

/**
 * The first of a group that wait take their places in line, as many as may, and the lane is saved. With a `newcomer`
 * among them, which waits nowhere yet; answers whether that has come up.
 */
export function fill(tx: Tx, lane: Lane, newcomer?: Mover): boolean {
  const { queue, key } = lane;
  let behind = newcomer;
  let isEmpty = false;
  for (;;) {
    if (isFull(lane)) {
      wakeAt(tx, lane, null);
      break;
    }
    const first = tx.get<WaitingRow>(FIRST_WAITING, queue.id, key);
    const comes = behind && (!first || behind.pos < first.pos) ? behind : undefined;
    const next = comes ? { ...comes, task: comes.seq } : first;
    const at = next ? opensFor(tx, lane, next.task) : null;
    if (!next || at! > tx.now) {
      isEmpty = !next;
      wakeAt(tx, lane, at);
      break;
    }
    if (comes) {
      behind = undefined;
    } else {
      tx.run(DELETE_WAITING, queue.id, key, next.pos);
      tx.count(queue, "waiting", -1);
    }
    lineUp(tx, lane, next);
  }
  if (behind) wait(tx, behind);
  saveLane(tx, lane, isEmpty);
  return newcomer !== undefined && behind === undefined;
}

/** None may come up before another one of it has moved. */
function isFull({ queue, key, holders, line }: Lane): boolean {
  const { concurrency, rateLimit, fair, weight } = queue.policy.groups;
  if (holders >= concurrency) return true;
  // With a rate one at a time: what stands in line has not been counted yet.
  if (rateLimit.length > 0 && line.length > 0) return true;
  return fair && line.length >= (Object.hasOwn(weight, key) ? weight[key]! : 1);
}

function opensFor(tx: Tx, { queue, meter, heldUntil }: Lane, seq: number): number {
  const { rateLimit } = queue.policy.groups;
  const cost = rateLimit.some(({ unit }) => unit !== null) ? costOf(tx, seq) : 1;
  return Math.max(heldUntil, opensAt(rateLimit, meter, cost, tx.now));
}

const COST = `SELECT cost FROM task WHERE seq = ?`;

export function costOf(tx: Tx, seq: number): number {
  return tx.get<{ cost: number | null }>(COST, seq)!.cost ?? 1;
}

function lineUp(tx: Tx, lane: Lane, { rank, pos, task, failures }: WaitingRow): void {
  const { queue } = lane;
  const { fair, sticky } = queue.policy.groups;
  lane.holders++;
  if (queue.lanes === COUNTED) lane.line.push(task);
  becomeReady(tx, queue, rank, fair ? freshPlace(tx) : pos, task, failures, sticky ? lane.session : null);
}

/** At the tail. Those that were added before get their numbers first: they follow each other. */
function freshPlace(tx: Tx): number {
  tx.newcomers.write();
  return ++tx.seq;
}

/** Somebody has to look again then: the keeper of this process is told. */
function wakeAt(tx: Tx, lane: Lane, at: number | null): void {
  if (lane.wakeAt === at) return;
  lane.wakeAt = at;
  if (at !== null) tx.hintDue(at);
}

/** See `enter` in line.ts. Where its group is more than an order, its head too has to ask again: another start counts. */
export function enterLane(tx: Tx, task: Mover): "ready" | "waiting" {
  const { queue, groupKey, holdsGroup, seq } = task;
  const lane = findLane(tx, queue, groupKey!);
  if (holdsGroup && !governsGroups(queue.policy)) {
    becomeReady(tx, queue, task.rank, task.pos, seq, task.failures);
    if (queue.lanes === COUNTED) lane.line.push(seq);
    saveLane(tx, lane);
    return "ready";
  }
  if (holdsGroup) lane.holders--;
  task.holdsGroup = fill(tx, lane, task);
  return task.holdsGroup ? "ready" : "waiting";
}

/** Becomes the head, if there is none. */
export function takeEmptyLane(tx: Tx, queue: Queue, key: string): boolean {
  const lane = findLane(tx, queue, key);
  if (lane.holders > 0) return false;
  lane.holders = 1;
  saveLane(tx, lane);
  return true;
}

/** One that waited holds it from now on, wherever it is. */
export function holdLane(tx: Tx, queue: Queue, key: string): void {
  const lane = findLane(tx, queue, key);
  lane.holders++;
  saveLane(tx, lane);
}

/** One that held it does no longer. */
export function freeLane(tx: Tx, queue: Queue, key: string): void {
  const lane = findLane(tx, queue, key);
  lane.holders--;
  fill(tx, lane);
}

export function fillLane(tx: Tx, queue: Queue, key: string): void {
  fill(tx, findLane(tx, queue, key));
}

/** It stands in line no longer, though it may still hold its lane. */
export function leaveLine(tx: Tx, queue: Queue, key: string, seq: number): void {
  const lane = findLane(tx, queue, key);
  lane.line = lane.line.filter((other) => other !== seq);
  saveLane(tx, lane);
}

export interface Started {
  seq: number;
  key: string;
  cost: number;
}

/** Tasks were claimed. Each start counts for its group, and leaves a place in line for the next. */
export function comeUp(tx: Tx, queue: Queue, session: number | null, started: readonly Started[]): void {
  const { rateLimit, sticky } = queue.policy.groups;
  const governs = governsGroups(queue.policy);
  for (const [key, starts] of Map.groupBy(started, (start) => start.key)) {
    const lane = findLane(tx, queue, key);
    const seqs = starts.map(({ seq }) => seq);
    lane.line = lane.line.filter((seq) => !seqs.includes(seq));
    if (governs) {
      for (const { cost } of starts) lane.meter = spend(rateLimit, lane.meter, cost, tx.now);
      lane.session = sticky ? session : null;
      fill(tx, lane);
    } else {
      saveLane(tx, lane);
    }
  }
}

const COUNT_LEAVING = `
  UPDATE lane SET holders = leaving.count
  FROM (SELECT group_key, count(*) AS count FROM leaving WHERE queue = :queue AND holds_group = 1 GROUP BY group_key) AS leaving
  WHERE lane.queue = :queue AND lane.group_key = leaving.group_key`;
const FORGET_LINES = `UPDATE lane SET line = NULL WHERE queue = :queue AND line IS NOT NULL`;
const inLine = (table: "ready" | "kept"): string => `
  UPDATE lane SET line = json_array(head.task)
  FROM (
    SELECT task.seq AS task, task.group_key FROM ${table} CROSS JOIN task ON task.seq = ${table}.task
    WHERE ${table}.queue = :queue AND task.group_key IS NOT NULL
  ) AS head
  WHERE lane.queue = :queue AND lane.group_key = head.group_key`;
const COUNT_LINES = [FORGET_LINES, inLine("ready"), inLine("kept")];

/** From here on the lanes of a queue say as much; once for a queue, since its lanes are looked at. */
export function raiseLanes(tx: Tx, queue: Queue, lanes: Lanes): void {
  if (queue.lanes >= lanes) return;
  const counts = [...(queue.lanes === HEADS ? [COUNT_LEAVING] : []), ...(lanes === COUNTED ? COUNT_LINES : [])];
  for (const sql of counts) tx.runMany(sql, [], { queue: queue.id });
  queue.lanes = lanes;
  tx.storeQueue(queue);
}
