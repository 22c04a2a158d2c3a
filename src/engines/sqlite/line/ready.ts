import { chunks, sized } from "../statements/chunks.ts";
import { SPECIAL } from "../statements/special.ts";
import type { Value } from "../statements/statements.ts";
import type { Queue, Server, Tx } from "../transaction/tx.ts";

/** Those that stand in line: for all, for workers that have not failed them, or for the one that has their group. */

const INSERT_READY = sized(
  `INSERT INTO ready (queue, rank, pos, task, failures, special)
   SELECT column1, column2, column3, seq, column5, ${SPECIAL}
   FROM (VALUES `,
  () => `(?, ?, ?, ?, ?)`,
  `) CROSS JOIN task ON task.seq = column4`,
);
const INSERT_KEPT = `
  INSERT INTO kept (queue, rank, pos, task, failures, special, until, avoid)
  SELECT ?, ?, ?, seq, ?, ${SPECIAL}, ?, ? FROM task WHERE seq = ?`;
const INSERT_OWN = sized(
  `INSERT INTO own (queue, session, rank, pos, task, failures, special)
   SELECT column1, column6, column2, column3, seq, column5, ${SPECIAL}
   FROM (VALUES `,
  () => `(?, ?, ?, ?, ?, ?)`,
  `) CROSS JOIN task ON task.seq = column4`,
);

/** A task that takes its place in line. */
export interface ReadyTask {
  queue: Queue;
  rank: number;
  pos: number;
  task: number;
  failures: number;
  /** The one that has its group, if any. */
  session: number | null;
}

const ONE_READY = `
  INSERT INTO ready (queue, rank, pos, task, failures, special)
  SELECT ?, ?, ?, seq, ?, ${SPECIAL} FROM task WHERE seq = ?`;

export function becomeReady(
  tx: Tx,
  queue: Queue,
  rank: number,
  pos: number,
  seq: number,
  failures: number,
): void {
  if (failures === 0 || !keep(tx, queue, rank, pos, seq, failures))
    tx.run(ONE_READY, queue.id, rank, pos, failures, seq);
  tx.count(queue, "ready", 1);
  tx.hintReady(queue);
}

/** The same for many. */
export function becomeReadyTogether(tx: Tx, comers: readonly ReadyTask[]): void {
  const [ready, own]: [Value[][], Value[][]] = [[], []];
  for (const { queue, rank, pos, task, failures, session } of comers) {
    if (failures > 0 && keep(tx, queue, rank, pos, task, failures)) continue;
    const row = [queue.id, rank, pos, task, failures];
    if (session !== null && serves(tx, queue, session)) own.push([...row, session]);
    else ready.push(row);
  }
  for (const chunk of chunks(ready)) tx.runMany(INSERT_READY(chunk.length), chunk.flat(), {});
  for (const chunk of chunks(own)) tx.runMany(INSERT_OWN(chunk.length), chunk.flat(), {});
  for (const { queue } of comers) {
    tx.count(queue, "ready", 1);
    tx.hintReady(queue);
  }
}

/** A failed task, for workers that have not failed it; answers false where there is none. */
function keep(tx: Tx, queue: Queue, rank: number, pos: number, seq: number, failures: number): boolean {
  const avoid = keptFrom(tx, queue, seq, failures);
  if (!avoid) return false;
  const until = tx.now + queue.policy.elsewhere;
  tx.run(INSERT_KEPT, queue.id, rank, pos, failures, until, JSON.stringify(avoid), seq);
  return true;
}

const OPEN_KEPT = `
  INSERT INTO ready (queue, rank, pos, task, failures, special)
  SELECT queue, rank, pos, task, failures, special FROM kept WHERE queue = ? AND rank = ? AND pos = ?`;
const DELETE_KEPT = `DELETE FROM kept WHERE queue = ? AND rank = ? AND pos = ?`;

/** Nobody else took it in time: now any worker may. */
export function openKept(tx: Tx, queue: Queue, rank: number, pos: number): void {
  tx.run(OPEN_KEPT, queue.id, rank, pos);
  tx.run(DELETE_KEPT, queue.id, rank, pos);
  tx.hintReady(queue);
}

const OPEN_OWN = `
  INSERT INTO ready (queue, rank, pos, task, failures, special)
  SELECT queue, rank, pos, task, failures, special FROM own WHERE queue = ? AND session = ?`;
const DELETE_OWN = `DELETE FROM own WHERE queue = ? AND session = ?`;

/** What was kept for the worker that had the groups is anybody's now. */
export function releaseSticky(tx: Tx, queue: Queue, session: number): void {
  const opened = tx.run(OPEN_OWN, queue.id, session);
  if (opened === 0) return;
  tx.run(DELETE_OWN, queue.id, session);
  tx.hintReady(queue, opened);
}

function serves(tx: Tx, queue: Queue, session: number): boolean {
  return serversOf(tx, queue).some(({ id }) => id === session);
}

const FAILED_BY = `
  SELECT worker FROM attempt WHERE task = ? AND outcome IN ('failed', 'timeout', 'lost', 'refused')
  ORDER BY fence DESC LIMIT 0 + ?`;
const LIVE_WORKERS = `
  SELECT session.id, session.worker FROM serving CROSS JOIN session ON session.id = serving.session
  WHERE serving.queue = ? AND session.beat_at + session.lease > ?`;

/** A failed task is kept from the workers that failed it, where there is another one. */
function keptFrom(tx: Tx, queue: Queue, seq: number, failures: number): string[] | null {
  if (queue.policy.elsewhere <= 0) return null;
  const servers = serversOf(tx, queue);
  if (servers.length === 0) return null;
  // The failures that count: those since the task was added or redriven.
  const avoid = [...new Set(tx.all<{ worker: string }>(FAILED_BY, seq, failures).map((row) => row.worker))];
  return servers.some(({ worker }) => !avoid.includes(worker)) ? avoid : null;
}

function serversOf(tx: Tx, queue: Queue): readonly Server[] {
  let servers = tx.serving.get(queue.name);
  if (!servers) {
    servers = tx.all<Server>(LIVE_WORKERS, queue.name, tx.awake);
    tx.serving.set(queue.name, servers);
  }
  return servers;
}
