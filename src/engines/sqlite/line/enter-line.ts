import { chunks, sized } from "../statements/chunks.ts";
import { OF_RUN, OPTIONS, SPECIAL, SPECIAL_OF_NEW, STEPPED } from "../statements/special.ts";
import type { Value } from "../statements/statements.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";
import { serves, avoidedBy } from "./elsewhere.ts";

/**
 * The only code that writes to the three tables of a line: `ready` for every worker, `ready_elsewhere` for workers that have not
 * failed the task (retry elsewhere), `ready_sticky` for the worker to which a group sticks. Each way in also counts the tasks and
 * hints at them, so that no caller can forget it. A test reads all statements of the engine and finds no other writer.
 */

/** A task that enters the line. */
export interface ReadyTask {
  queue: Queue;
  rank: number;
  pos: number;
  task: number;
  failures: number;
  /** The session to which its group sticks. */
  session: number | null;
}

const INSERT_READY = `
  INSERT INTO ready (queue, rank, pos, task, failures, special)
  SELECT ?, ?, ?, seq, ?, ${SPECIAL} FROM task WHERE seq = ?`;
const INSERT_ELSEWHERE = `
  INSERT INTO ready_elsewhere (queue, rank, pos, task, failures, special, until, avoid)
  SELECT ?, ?, ?, seq, ?, ${SPECIAL}, ?, ? FROM task WHERE seq = ?`;

/** One task enters the line of a queue whose groups are not sticky. */
export function enterLine(tx: Tx, task: Omit<ReadyTask, "session">): void {
  const { queue, rank, pos, task: seq, failures } = task;
  if (!enterElsewhere(tx, task)) tx.run(INSERT_READY, queue.id, rank, pos, failures, seq);
  tx.counters.count(queue, "ready", 1);
  tx.batch.hintReady(queue);
}

const INSERT_MANY_READY = sized(
  `INSERT INTO ready (queue, rank, pos, task, failures, special)
   SELECT column1, column2, column3, seq, column5, ${SPECIAL}
   FROM (VALUES `,
  () => `(?, ?, ?, ?, ?)`,
  `) CROSS JOIN task ON task.seq = column4`,
);
const INSERT_MANY_STICKY = sized(
  `INSERT INTO ready_sticky (queue, session, rank, pos, task, failures, special)
   SELECT column1, column6, column2, column3, seq, column5, ${SPECIAL}
   FROM (VALUES `,
  () => `(?, ?, ?, ?, ?, ?)`,
  `) CROSS JOIN task ON task.seq = column4`,
);

/** Tasks of any queues enter their lines in bulk. */
export function enterLines(tx: Tx, tasks: readonly ReadyTask[]): void {
  const [ready, sticky]: [Value[][], Value[][]] = [[], []];
  for (const each of tasks) {
    if (enterElsewhere(tx, each)) continue;
    const { queue, rank, pos, task, failures, session } = each;
    const row = [queue.id, rank, pos, task, failures];
    if (session !== null && serves(tx, queue, session)) sticky.push([...row, session]);
    else ready.push(row);
  }
  for (const chunk of chunks(ready)) tx.runMany(INSERT_MANY_READY(chunk.length), chunk.flat(), {});
  for (const chunk of chunks(sticky)) tx.runMany(INSERT_MANY_STICKY(chunk.length), chunk.flat(), {});
  for (const { queue } of tasks) {
    tx.counters.count(queue, "ready", 1);
    tx.batch.hintReady(queue);
  }
}

/** A failed task is first offered to other workers. Answers false if it may go to any worker. */
function enterElsewhere(tx: Tx, { queue, rank, pos, task, failures }: Omit<ReadyTask, "session">): boolean {
  if (failures === 0) return false;
  const avoid = avoidedBy(tx, queue, task, failures);
  if (!avoid) return false;
  const until = tx.now + queue.policy.elsewhere;
  tx.run(INSERT_ELSEWHERE, queue.id, rank, pos, failures, until, JSON.stringify(avoid), task);
  return true;
}

/** What new tasks have beyond their data: nothing, options that are columns of `task`, or a run that they are part of. */
export type NewKind = "dataOnly" | "withOptions" | "ofRun";

const insertNew = (rank: string, special: string | number): string => `
  INSERT INTO ready (queue, rank, pos, task, failures, special)
  SELECT queue, ${rank}, seq, seq, 0, ${special} FROM task WHERE seq BETWEEN ? AND ?`;
const INSERT_NEW: Record<NewKind, string> = {
  dataOnly: insertNew("0", 0),
  withOptions: insertNew("0 - priority", SPECIAL_OF_NEW),
  ofRun: insertNew("0", OF_RUN),
};

/**
 * New tasks with consecutive numbers enter their lines; `queues` has the queue of each. Only for the add buffer, which has
 * counted them already: the next add of the batch may exceed a queue's maxDepth.
 */
export function enterLinesAsNew(tx: Tx, kind: NewKind, first: number, queues: readonly Queue[]): void {
  tx.run(INSERT_NEW[kind], first, first + queues.length - 1);
  const single = queues[0]!;
  if (queues.every((queue) => queue === single)) tx.batch.hintReady(single, queues.length);
  else for (const queue of queues) tx.batch.hintReady(queue);
}

const ELSEWHERE_TO_READY = `
  INSERT INTO ready (queue, rank, pos, task, failures, special)
  SELECT queue, rank, pos, task, failures, special FROM ready_elsewhere WHERE queue = ? AND rank = ? AND pos = ?`;
const DELETE_ELSEWHERE = `DELETE FROM ready_elsewhere WHERE queue = ? AND rank = ? AND pos = ?`;

/** No other worker took the failed task in time: from now on any worker may. */
export function endRetryElsewhere(tx: Tx, queue: Queue, rank: number, pos: number): void {
  tx.run(ELSEWHERE_TO_READY, queue.id, rank, pos);
  tx.run(DELETE_ELSEWHERE, queue.id, rank, pos);
  tx.batch.hintReady(queue);
}

const STICKY_TO_READY = `
  INSERT INTO ready (queue, rank, pos, task, failures, special)
  SELECT queue, rank, pos, task, failures, special FROM ready_sticky WHERE queue = ? AND session = ?`;
const DELETE_STICKY = `DELETE FROM ready_sticky WHERE queue = ? AND session = ?`;

/** The worker to which groups stuck is gone: any worker may claim their tasks. */
export function releaseSticky(tx: Tx, queue: Queue, session: number): void {
  const released = tx.run(STICKY_TO_READY, queue.id, session);
  if (released === 0) return;
  tx.run(DELETE_STICKY, queue.id, session);
  tx.batch.hintReady(queue, released);
}

const RENUMBER_STICKY = `UPDATE ready_sticky SET session = ? WHERE queue = ? AND session = ?`;

/** A worker continues under a new session: the tasks that stick to it follow. */
export function renumberSticky(tx: Tx, queue: Queue, from: number, to: number): void {
  tx.run(RENUMBER_STICKY, to, queue.id, from);
}

const mark = (bit: number) => ({
  ready: `UPDATE ready SET special = special | ${bit} WHERE queue = ? AND rank = ? AND pos = ?`,
  ready_elsewhere: `UPDATE ready_elsewhere SET special = special | ${bit} WHERE queue = ? AND rank = ? AND pos = ?`,
  ready_sticky: `UPDATE ready_sticky SET special = special | ${bit} WHERE task = ?`,
});
const MARK = { stepped: mark(STEPPED), options: mark(OPTIONS) };

/**
 * Sets a bit in the line's row of a task: a step or a signal was stored for it (`stepped`), or its payload was replaced
 * by one that may have headers (`options`).
 */
export function markInLine(
  tx: Tx,
  what: keyof typeof MARK,
  line: keyof ReturnType<typeof mark>,
  at: { queue: Queue; rank: number; pos: number; seq: number },
): void {
  if (line === "ready_sticky") tx.run(MARK[what].ready_sticky, at.seq);
  else tx.run(MARK[what][line], at.queue.id, at.rank, at.pos);
}

const changeRank = (table: string): string =>
  `UPDATE ${table} SET rank = ? WHERE queue = ? AND rank = ? AND pos = ?`;
const CHANGE_RANK = {
  ready: changeRank("ready"),
  ready_elsewhere: changeRank("ready_elsewhere"),
  ready_sticky: `UPDATE ready_sticky SET rank = ? WHERE task = ?`,
};

/** The priority of a task in the line was changed. Its position among those of one rank stays. */
export function changeRankInLine(
  tx: Tx,
  line: keyof typeof CHANGE_RANK,
  { queue, rank, pos, seq }: { queue: Queue; rank: number; pos: number; seq: number },
  newRank: number,
): void {
  if (line === "ready_sticky") tx.run(CHANGE_RANK[line], newRank, seq);
  else tx.run(CHANGE_RANK[line], newRank, queue.id, rank, pos);
  tx.batch.hintReady(queue);
}

/**
 * An imported task enters the line at the position that it had. `elsewhere`: the time until which it avoids these workers. The
 * import counts it, like tasks of all other states.
 */
export function enterLineAsImported(
  tx: Tx,
  { queue, rank, pos, task, failures }: Omit<ReadyTask, "session">,
  elsewhere: { until: number; avoid: readonly string[] } | null,
): void {
  if (elsewhere === null) tx.run(INSERT_READY, queue.id, rank, pos, failures, task);
  else
    tx.run(
      INSERT_ELSEWHERE,
      queue.id,
      rank,
      pos,
      failures,
      elsewhere.until,
      JSON.stringify(elsewhere.avoid),
      task,
    );
}
