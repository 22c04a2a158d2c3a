import type { Verbs } from "../../../engine/engine.ts";
import { DeadGroups, headerPattern, matchesError } from "../../../core/task/dead-patterns.ts";
import { fitting, sizeOfRow } from "../../../core/answer/answer-size.ts";
import type {
  DeadFilter,
  DeadPattern,
  Headers,
  PatternKey,
  TaskError,
  TaskState,
} from "../../../core/task/task.ts";
import { announceTask, returnToLine } from "../line/line.ts";
import { type Found, findBySeq, takeOut } from "../line/find-task.ts";
import { remove } from "../line/remove.ts";
import { reviveRelatives } from "../flows/children.ts";
import { revivePart } from "../flows/runs.ts";
import { DELETE_TIMEOUTS, DELETE_STEPS } from "../flows/steps.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** The verbs of dead letters: `patterns`, `redrive`, `discard`. Also reads dead letters for `list`. */

export interface DeadRow {
  task: number;
  died_at: number;
}

// From the given one on, the earliest death first.
const ALL = `SELECT task, died_at FROM dead WHERE queue = ? AND (died_at, task) > (?, ?) ORDER BY died_at, task`;
const OF_KIND = `
  SELECT task, died_at FROM dead WHERE queue = ? AND fingerprint = ? AND (died_at, task) > (?, ?)
  ORDER BY died_at, task`;
const WITH_WORDS = `
  SELECT dead.task, died_at, dead.fingerprint, attempt.name, attempt.message
  FROM dead CROSS JOIN attempt ON attempt.task = dead.task AND attempt.fence = dead.fence
  WHERE queue = ? AND (died_at, dead.task) > (?, ?)
  ORDER BY died_at, dead.task`;
const BY_ID = `
  SELECT dead.task, died_at, dead.fingerprint, attempt.name, attempt.message
  FROM dead
  CROSS JOIN attempt ON attempt.task = dead.task AND attempt.fence = dead.fence
  CROSS JOIN task ON task.seq = dead.task
  WHERE dead.task = ? AND dead.queue = ? AND task.created_at = ?`;

interface Letter extends DeadRow {
  fingerprint: string;
  name: string;
  message: string;
}

type After = [diedAt: number, task: number];

/** Those that match the filter, the earliest death first; at most `limit` after the given one. */
export function deadLetters(
  tx: Tx,
  queue: Queue | undefined,
  filter: DeadFilter,
  after: After = [Number.MIN_SAFE_INTEGER, 0],
  limit = Number.POSITIVE_INFINITY,
): DeadRow[] {
  if (!queue) return [];
  const found: DeadRow[] = [];
  for (const row of candidates(tx, queue, filter, after)) {
    if ("message" in row && !matchesError(row as Letter, filter)) continue;
    found.push({ task: row.task, died_at: row.died_at });
    if (found.length >= limit) break;
  }
  return found;
}

/** In order. Text filters are applied later. */
function candidates(tx: Tx, queue: Queue, filter: DeadFilter, after: After): Iterable<DeadRow> {
  if (filter.ids) return named(tx, queue, filter.ids, after);
  if (filter.error !== undefined) return tx.each<Letter>(WITH_WORDS, queue.id, ...after);
  if (filter.pattern !== undefined) return tx.each<DeadRow>(OF_KIND, queue.id, filter.pattern, ...after);
  return tx.each<DeadRow>(ALL, queue.id, ...after);
}

function named(tx: Tx, queue: Queue, ids: string[], [diedAt, last]: After): Letter[] {
  const letters = [...new Set(ids)].flatMap((id) => {
    const place = tx.place(id);
    return place ? tx.all<Letter>(BY_ID, place.seq, queue.id, place.createdAt) : [];
  });
  return letters
    .filter((row) => row.died_at > diedAt || (row.died_at === diedAt && row.task > last))
    .sort((a, b) => a.died_at - b.died_at || a.task - b.task);
}

const KINDS = `SELECT task, died_at, fingerprint AS pattern FROM dead WHERE queue = ? ORDER BY died_at, task`;
const WORKERS = `SELECT task, died_at, worker AS pattern FROM dead WHERE queue = ? ORDER BY died_at, task`;
const HEADERS = `
  SELECT dead.task, died_at, task.headers AS pattern FROM dead CROSS JOIN task ON task.seq = dead.task
  WHERE dead.queue = ? ORDER BY died_at, dead.task`;
const SAMPLE = `
  SELECT task.created_at, attempt.name, attempt.message, attempt.stack
  FROM dead
  CROSS JOIN task ON task.seq = dead.task
  CROSS JOIN attempt ON attempt.task = dead.task AND attempt.fence = dead.fence
  WHERE dead.task = ?`;

export function patterns(tx: Tx, { queue: name, by, limit }: Verbs["patterns"]["in"]): DeadPattern[] {
  const queue = tx.queues.named(name);
  if (!queue) return [];
  const groups = new DeadGroups();
  for (const { pattern, died_at: at, task } of deaths(tx, queue, by)) groups.add(pattern, at, task);
  const found = groups.largest(limit).map(({ last, ...group }) => {
    const { created_at: createdAt, ...error } = tx.get<TaskError & { created_at: number }>(SAMPLE, last)!;
    return { ...group, sample: { id: tx.id(createdAt, last), error } };
  });
  return fitting(found, sizeOfRow);
}

function* deaths(tx: Tx, queue: Queue, by: PatternKey): Iterable<DeadRow & { pattern: string }> {
  if (by === "fingerprint") yield* tx.each<DeadRow & { pattern: string }>(KINDS, queue.id);
  else if (by === "worker") yield* tx.each<DeadRow & { pattern: string }>(WORKERS, queue.id);
  else {
    for (const row of tx.each<DeadRow & { pattern: string | null }>(HEADERS, queue.id)) {
      const headers = row.pattern === null ? {} : (JSON.parse(row.pattern) as Headers);
      yield { ...row, pattern: headerPattern(headers, by) };
    }
  }
}

// This rewrites the whole row with its payload, which only a redrive does.
const REDRIVE = `UPDATE task SET pos = ?, expires_at = NULL WHERE seq = ?`;
// It takes its key back, unless a newer task has it by now.
const REVIVE_KEY = `
  INSERT INTO idempotency (queue, key, task, created_at) VALUES (?, ?, ?, ?)
  ON CONFLICT (queue, key) DO UPDATE
  SET task = excluded.task, created_at = excluded.created_at, forget_at = NULL, state = NULL
  WHERE task = excluded.task OR forget_at <= ?`;

export function redrive(
  tx: Tx,
  { queue: name, filter, spacing, fresh = false }: Verbs["redrive"]["in"],
): { count: number } {
  const letters = lettersToMove(tx, name, filter);
  for (const [index, task] of letters.entries())
    bringBack(tx, task, { delay: Math.floor(index * spacing), fresh });
  return { count: letters.length };
}

/** A task that has ended runs again, now or after `delay`. */
export function bringBack(
  tx: Tx,
  task: Found,
  { delay, fresh }: { delay: number; fresh: boolean },
): TaskState {
  const { seq } = task;
  takeOut(tx, task);
  task.pos = ++tx.seq;
  // A task that runs again does not expire, because its operator wants it done.
  task.expiresAt = null;
  tx.run(REDRIVE, task.pos, seq);
  if (task.key !== null) tx.run(REVIVE_KEY, task.queue.id, task.key, seq, task.createdAt, tx.now);
  // Timeouts of signals are forgotten: the signal may come now.
  tx.run(fresh ? DELETE_STEPS : DELETE_TIMEOUTS, seq);
  revivePart(tx, seq);
  reviveRelatives(tx, task, fresh);
  announceTask(tx, "task.redriven", task, {});
  return returnToLine(tx, task, { delay });
}

export function discard(tx: Tx, { queue: name, filter }: Verbs["discard"]["in"]): { count: number } {
  const letters = lettersToMove(tx, name, filter);
  for (const task of letters) remove(tx, task);
  return { count: letters.length };
}

function lettersToMove(tx: Tx, name: string, filter: DeadFilter): Found[] {
  const letters = deadLetters(tx, tx.queues.named(name), filter);
  return letters.map(({ task }) => findBySeq(tx, task)!);
}
