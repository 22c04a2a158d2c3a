import type { EndState } from "../../../core/task/task.ts";
import { findHeld, findVerifying, type Known, taskBySeq } from "./held.ts";
import { leaveLine } from "../limits/move-lanes.ts";
import { dropVerifying, forgetClaim, type Held, unwatchTtl } from "./line.ts";
import { COUNTED } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** The location of a task: its state, and the row that says so. */
export type Place =
  | { state: "claimed" | "verifying"; held: Held }
  | { state: "ready"; line: InLine; failures: number }
  | { state: "scheduled"; due: number; failures: number; blocksGroup: boolean }
  | { state: "parked"; due: number; failures: number; blocksGroup: boolean; signal: string }
  | { state: "waiting"; failures: number }
  | { state: EndState };

/** Its position in the line, and the table: for all workers, for some, or for one. */
export type InLine =
  | { table: "ready" | "ready_elsewhere"; pos: number }
  | { table: "ready_sticky"; pos: number; session: number };

/** A task and its location, with everything that a transition needs. */
export interface Found extends Known {
  place: Place;
}

export function findTask(tx: Tx, id: string): Found | undefined {
  const known = tx.place(id);
  const found = known && findBySeq(tx, known.seq);
  return found?.createdAt === known?.createdAt ? found : undefined;
}

export function findBySeq(tx: Tx, seq: number): Found | undefined {
  const task = taskBySeq(tx, seq);
  if (!task) return undefined;
  const place = findPlace(tx, task);
  const blocksGroup =
    task.groupKey !== null &&
    ("held" in place
      ? place.held.blocksGroup
      : place.state === "ready" || ("blocksGroup" in place && place.blocksGroup));
  const failures = "held" in place ? place.held.failures : "failures" in place ? place.failures : 0;
  return { ...task, place, blocksGroup, failures };
}

const READY = `SELECT failures FROM ready WHERE queue = ? AND rank = ? AND pos = ?`;
const ELSEWHERE = `SELECT failures FROM ready_elsewhere WHERE queue = ? AND rank = ? AND pos = ?`;
const SCHEDULED = `SELECT due, failures, blocks_group, signal FROM scheduled WHERE queue = ? AND pos = ?`;
const WAITING = `SELECT failures FROM waiting WHERE queue = ? AND group_key = ? AND pos = ?`;
const ENDED = `SELECT state FROM ended WHERE task = ?`;

interface ScheduledRow {
  due: number;
  failures: number;
  blocks_group: number;
  signal: string | null;
}

function findPlace(tx: Tx, task: Known): Place {
  const queue = task.queue.id;
  const held = findHeld(tx, task.seq);
  if (held) return { state: "claimed", held };
  const verifying = findVerifying(tx, task.seq);
  if (verifying) return { state: "verifying", held: verifying };
  const ended = tx.get<{ state: EndState }>(ENDED, task.seq);
  if (ended) return { state: ended.state };
  const ready = tx.get<{ failures: number }>(READY, queue, task.rank, task.pos);
  if (ready) return { state: "ready", line: { table: "ready", pos: task.pos }, failures: ready.failures };
  const scheduled = tx.get<ScheduledRow>(SCHEDULED, queue, task.pos);
  if (scheduled) {
    const { due, failures, signal } = scheduled;
    const waits = { due, failures, blocksGroup: scheduled.blocks_group === 1 };
    return signal === null ? { state: "scheduled", ...waits } : { state: "parked", signal, ...waits };
  }
  const elsewhere = tx.get<{ failures: number }>(ELSEWHERE, queue, task.rank, task.pos);
  if (elsewhere)
    return {
      state: "ready",
      line: { table: "ready_elsewhere", pos: task.pos },
      failures: elsewhere.failures,
    };
  if (task.groupKey !== null) {
    const turn = task.queue.lanes === COUNTED && findTurn(tx, task);
    if (turn) return turn;
    const waiting = tx.get<{ failures: number }>(WAITING, queue, task.groupKey, task.pos);
    if (waiting) return { state: "waiting", failures: waiting.failures };
  }
  return { state: "dead" };
}

const READY_MOVED = `
  SELECT pos, failures FROM ready INDEXED BY ready_moved WHERE queue = ? AND task = ? AND pos <> task`;
const ELSEWHERE_MOVED = `
  SELECT pos, failures FROM ready_elsewhere INDEXED BY ready_elsewhere_moved WHERE queue = ? AND task = ? AND pos <> task`;
const STICKY = `SELECT pos, session, failures FROM ready_sticky WHERE task = ?`;

/** If groups rotate or are sticky. */
function findTurn(tx: Tx, { queue, seq }: Known): Place | undefined {
  const sticky = tx.get<{ pos: number; session: number; failures: number }>(STICKY, seq);
  if (sticky) {
    const { pos, session, failures } = sticky;
    return { state: "ready", line: { table: "ready_sticky", pos, session }, failures };
  }
  for (const [table, sql] of [
    ["ready", READY_MOVED] as const,
    ["ready_elsewhere", ELSEWHERE_MOVED] as const,
  ]) {
    const moved = tx.get<{ pos: number; failures: number }>(sql, queue.id, seq);
    if (moved) return { state: "ready", line: { table, pos: moved.pos }, failures: moved.failures };
  }
  return undefined;
}

const DELETE_READY = `DELETE FROM ready WHERE queue = ? AND rank = ? AND pos = ?`;
const DELETE_ELSEWHERE = `DELETE FROM ready_elsewhere WHERE queue = ? AND rank = ? AND pos = ?`;
const DELETE_STICKY = `DELETE FROM ready_sticky WHERE task = ?`;
const DELETE_SCHEDULED = `DELETE FROM scheduled WHERE queue = ? AND pos = ?`;
const DELETE_WAITING = `DELETE FROM waiting WHERE queue = ? AND group_key = ? AND pos = ?`;
const DELETE_ENDED = `DELETE FROM ended WHERE task = ?`;
const DELETE_DEAD = `DELETE FROM dead WHERE task = ?`;

/** Takes a task out of its state. It does not free the group. */
export function takeOut(tx: Tx, task: Found): void {
  const queue = task.queue.id;
  switch (task.place.state) {
    case "claimed":
      forgetClaim(tx, task);
      return;
    case "verifying":
      dropVerifying(tx, task);
      return;
    case "ready":
      leaveTable(tx, task, task.place.line);
      if (task.groupKey !== null && task.queue.lanes === COUNTED)
        leaveLine(tx, task.queue, task.groupKey, task.seq);
      break;
    case "scheduled":
    case "parked":
      tx.run(DELETE_SCHEDULED, queue, task.pos);
      break;
    case "waiting":
      tx.run(DELETE_WAITING, queue, task.groupKey, task.pos);
      break;
    case "dead":
      tx.run(DELETE_DEAD, task.seq);
      break;
    case "done":
    case "cancelled":
    case "expired":
      tx.run(DELETE_ENDED, task.seq);
      break;
  }
  tx.counters.count(task.queue, task.place.state, -1);
  if (["ready", "scheduled", "parked", "waiting"].includes(task.place.state))
    unwatchTtl(tx, task.seq, task.expiresAt);
}

function leaveTable(tx: Tx, { queue, rank, seq }: Found, { table, pos }: InLine): void {
  if (table === "ready_sticky") tx.run(DELETE_STICKY, seq);
  else tx.run(table === "ready_elsewhere" ? DELETE_ELSEWHERE : DELETE_READY, queue.id, rank, pos);
}
