import { isLarger } from "../../../core/input/limits.ts";
import type { Body } from "../../../core/task/task.ts";
import type { Op, Outcome } from "../../../engine/engine.ts";
import { chunks, sized } from "../statements/chunks.ts";
import { freeGroups, startKeyWindows } from "../line/end-together.ts";
import { bringsUp, goOnTogether, turnsOf } from "../flows/continue-runs.ts";
import { GROUPED, KEYED, OPTIONS, STEPPED } from "../statements/special.ts";
import { DELETE_STEPS } from "../flows/steps.ts";
import { isVerified } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * The fast path of `settle`: the acks of a batch that follow each other, in bulk. batch/store.ts calls it. Plain tasks
 * without results end in stretches, the others by lists of values (`endAll`). An ack in a batch of 100 takes 5 µs of CPU,
 * and 15 on the general path; of a task with a group 17 and 28.
 */

export interface Success {
  op: Op<"settle">;
  seq: number;
  fence: number;
  result: Body | null;
  settled: boolean;
}

/**
 * Settles successes that follow each other in bulk, from index `from` on; returns none if there are none. Cancelled
 * tasks and lost claims are settled by `alone`, one by one. None of these acks adds tasks, so their order does not
 * matter.
 */
export function settleTogether(
  tx: Tx,
  ops: readonly Op[],
  from: number,
  alone: (op: Op<"settle">) => Outcome,
): Outcome[] {
  const successes = successesFrom(tx, ops, from);
  // Plain tasks first, whatever is between them: they are of no run, and need no lookup.
  for (const stretch of stretchesOf(successes)) endStretch(tx, stretch);
  announceDone(
    tx,
    successes.filter(({ settled }) => settled),
  );
  const rest = successes.filter(({ settled }) => !settled);
  if (tx.hasRuns || tx.hasChildren) return inOrder(successes, rest, settleInTurn(tx, rest, alone));
  endTogether(tx, usual(tx, rest));
  return successes.map(({ op, settled }) => (settled ? SETTLED : alone(op)));
}

const SETTLED: Outcome<"settle"> = { ok: { state: "done" } };

/** All others were settled before. */
function inOrder(successes: readonly Success[], rest: readonly Success[], outcomes: Outcome[]): Outcome[] {
  const outcomeOf = new Map(rest.map((each, i) => [each, outcomes[i]!]));
  return successes.map((each) => outcomeOf.get(each) ?? SETTLED);
}

function successesFrom(tx: Tx, ops: readonly Op[], from: number): Success[] {
  const successes: Success[] = [];
  const seen = new Set<number>();
  for (let i = from; i < ops.length; i++) {
    const op = ops[i]!;
    if (op.verb !== "settle" || op.settlement.kind !== "done") break;
    const { result, adds, each, next } = op.settlement;
    const place = tx.place(op.id);
    if (!place || seen.has(place.seq) || each || next || op.spent !== undefined || (adds && adds.length > 0))
      break;
    if (result !== null && isLarger(result, tx.queues.traits.leastPayload)) break;
    seen.add(place.seq);
    successes.push({ op, seq: place.seq, fence: op.fence, result, settled: false });
  }
  return successes;
}

/**
 * If there are runs or children: successes that only lead to the next stage are settled in bulk too, and the next tasks
 * are added in their order. All others are settled in turn.
 */
function settleInTurn(
  tx: Tx,
  successes: readonly Success[],
  alone: (op: Op<"settle">) => Outcome,
): Outcome[] {
  const outcomes: Outcome[] = [];
  for (const turn of turnsOf(tx, successes)) {
    if (turn.together) {
      endTogether(tx, turn.successes);
      goOnTogether(tx, turn.steps);
      for (const _ of turn.successes) outcomes.push(SETTLED);
    } else {
      tx.addBuffer.write();
      for (const { op } of turn.successes) outcomes.push(alone(op));
    }
  }
  return outcomes;
}

function endTogether(tx: Tx, successes: readonly Success[]): void {
  for (const chunk of chunks(successes)) endAll(tx, chunk);
  announceDone(
    tx,
    successes.filter(({ settled }) => settled),
  );
}

/** In the order in which they were settled. */
function announceDone(tx: Tx, successes: readonly Success[]): void {
  if (tx.listeners === 0 || tx.events.skip(successes.length)) return;
  const endOf = endsOf(tx, successes);
  for (const { op, seq } of successes) {
    const [queue, worker, attempt] = endOf(seq);
    const about = { queue: tx.queues.of(queue).name, taskId: op.id, worker, attempt };
    tx.announce({ type: "task.done", at: tx.now, ...about });
  }
}

type End = [queue: number, worker: string, attempt: number];

const COMMON_END = `
  SELECT max(queue), max(worker), max(attempt) FROM ended WHERE task BETWEEN ? AND ?
  HAVING count(*) = ? AND min(queue) = max(queue) AND min(worker) = max(worker) AND min(attempt) = max(attempt)`;
const ENDED = sized(
  `SELECT ended.queue, ended.worker, ended.attempt, ended.task FROM (VALUES `,
  () => `(?)`,
  `) CROSS JOIN ended ON ended.task = column1`,
);

/** Tasks that were added one after the other mostly have the same end: one row instead of one for each. */
function endsOf(tx: Tx, successes: readonly Success[]): (seq: number) => End {
  const seqs = successes.map(({ seq }) => seq);
  const [first, last] = [Math.min(...seqs), Math.max(...seqs)];
  if (last - first + 1 === seqs.length) {
    const [common] = tx.rows<End>(COMMON_END, first, last, seqs.length);
    if (common) return () => common;
  }
  const ends = new Map<number, End>();
  for (const chunk of chunks(seqs))
    for (const row of tx.rows<[...End, task: number]>(ENDED(chunk.length), ...chunk))
      ends.set(row[3], [row[0], row[1], row[2]]);
  return (seq) => ends.get(seq)!;
}

/** Fewer are not worth three statements. */
const SHORTEST_STRETCH = 8;
/** Claims of other tasks within the range of a stretch are read too. So many for each settled claim still pay. */
const WIDEST_STRETCH = 64;

/** Tasks that were claimed one after the other and have no result: only their numbers differ. */
function stretchesOf(successes: readonly Success[]): Success[][] {
  const stretches: Success[][] = [];
  let stretch: Success[] = [];
  const close = (): void => {
    if (stretch.length >= SHORTEST_STRETCH) stretches.push(stretch);
    stretch = [];
  };
  for (const each of successes.toSorted((a, b) => a.fence - b.fence)) {
    if (stretch.length > 0 && each.fence !== stretch.at(-1)!.fence + 1) close();
    if (each.result === null) stretch.push(each);
  }
  close();
  return stretches;
}

const STRETCH = `FROM claim WHERE task BETWEEN ? AND ? AND fence BETWEEN ? AND ? AND special <= ${OPTIONS} AND cancelled = 0`;
const SUM_STRETCH = `SELECT count(*), min(queue), max(queue), sum(? - started_at) ${STRETCH} AND fence - task = ?`;
const READ_STRETCH = `SELECT task, fence, queue, started_at ${STRETCH}`;
const END_STRETCH = `
  INSERT INTO ended (task, queue, state, ended_at, started_at, attempt, fence, worker)
  SELECT task, queue, 'done', ?, started_at, failures + 1, fence, worker ${STRETCH}`;
const DELETE_STRETCH = `DELETE ${STRETCH}`;

/** The least and the greatest task, and the first and the last fence, of a stretch. */
type Range = [number, number, number, number];
/** Claims of one queue: how many, and for how long they were held together. */
type Ended = [queue: number, count: number, serviceMs: number];

/**
 * In SQL alone, if all claims are valid and plain; otherwise it does nothing. Values that are passed cost more than rows
 * that are read: an ack in a batch of 100 takes 4.9 µs of CPU, and 9.9 without this; with ten priorities 7.7 and 13.0.
 */
function endStretch(tx: Tx, stretch: readonly Success[]): void {
  const seqs = stretch.map(({ seq }) => seq);
  const range: Range = [Math.min(...seqs), Math.max(...seqs), stretch[0]!.fence, stretch.at(-1)!.fence];
  if (range[1] - range[0] >= WIDEST_STRETCH * stretch.length) return;
  const ended = sumStretch(tx, stretch, range) ?? readStretch(tx, stretch, range);
  if (!ended || ended.some(([queue]) => isVerified(tx.queues.of(queue)))) return;
  tx.run(END_STRETCH, tx.now, ...range);
  tx.run(DELETE_STRETCH, ...range);
  for (const [queue, count, serviceMs] of ended) countDone(tx, queue, count, serviceMs);
  for (const each of stretch) each.settled = true;
}

/**
 * Undefined unless all claims are valid and of one queue, and their tasks are as far apart as their fences, which is the
 * usual case: a row for each claim costs 0.7 µs of CPU.
 */
function sumStretch(tx: Tx, stretch: readonly Success[], range: Range): Ended[] | undefined {
  const offset = stretch[0]!.fence - stretch[0]!.seq;
  if (stretch.some(({ seq, fence }) => fence - seq !== offset)) return undefined;
  type Sums = [count: number, least: number, greatest: number, serviceMs: number];
  const [[count, queue, greatest, serviceMs]] = tx.rows<Sums>(SUM_STRETCH, tx.now, ...range, offset) as [
    Sums,
  ];
  return count === stretch.length && queue === greatest ? [[queue, count, serviceMs]] : undefined;
}

/** Undefined unless all claims are valid. */
function readStretch(tx: Tx, stretch: readonly Success[], range: Range): Ended[] | undefined {
  type Row = [task: number, fence: number, queue: number, startedAt: number];
  const rows = tx.rows<Row>(READ_STRETCH, ...range);
  if (rows.length !== stretch.length) return undefined;
  const fenceOf = new Map(rows.map(([task, fence]) => [task, fence]));
  if (!stretch.every(({ seq, fence }) => fenceOf.get(seq) === fence)) return undefined;
  return rows.map(([, , queue, startedAt]) => [queue, 1, tx.now - startedAt]);
}

const INSERT_DONE = sized(
  `INSERT INTO ended (task, queue, state, ended_at, started_at, attempt, fence, worker, result)
   SELECT claim.task, claim.queue, 'done', :now, claim.started_at, claim.failures + 1, claim.fence, claim.worker,
     settled.column3
   FROM (VALUES `,
  () => `(?, ?, ?)`,
  `) AS settled CROSS JOIN claim ON claim.task = settled.column1
   WHERE claim.fence = settled.column2 AND claim.cancelled = 0
   RETURNING task, queue, started_at`,
);
const DELETE_CLAIMS = sized(`DELETE FROM claim WHERE task IN (`, () => `?`, `) RETURNING task, special`);

const CLAIMS = sized(
  `SELECT task, queue, fence, cancelled, special FROM claim WHERE task IN (`,
  () => `?`,
  `)`,
);

type Claim = [task: number, queue: number, fence: number, cancelled: number, special: number];

/** Those that end. The others wait for a verdict, or are one, and are settled one by one. */
function usual(tx: Tx, successes: readonly Success[]): readonly Success[] {
  if (!tx.queues.traits.hasVerified && !tx.queues.traits.hasTurns) return successes;
  const claims = new Map<number, Claim>();
  for (const seqs of chunks(successes.map(({ seq }) => seq)))
    for (const row of tx.rows<Claim>(CLAIMS(seqs.length), ...seqs)) claims.set(row[0], row);
  const holds = ({ seq, fence }: Success): boolean => {
    const claim = claims.get(seq);
    return claim !== undefined && claim[2] === fence && claim[3] === 0 && !isVerified(tx.queues.of(claim[1]));
  };
  const ending = successes.filter(holds);
  if (ending.length === successes.length) return ending;
  // If groups rotate, the order of the ends decides positions: then all are settled in order.
  return ending.filter(({ seq }) => !bringsUp(tx.queues.of(claims.get(seq)![1]), claims.get(seq)![4]));
}

function endAll(tx: Tx, successes: readonly Success[]): void {
  const values = successes.flatMap(({ seq, fence, result }) => [seq, fence, result]);
  const rows = tx.takeMany<[task: number, queue: number, startedAt: number]>(
    INSERT_DONE(successes.length),
    values,
    { now: tx.now },
  );
  const ended = rows.map(([task]) => task);
  const claims = [...chunks(ended)].flatMap((chunk) =>
    tx.takeMany<[task: number, special: number]>(DELETE_CLAIMS(chunk.length), chunk, {}),
  );
  for (const [, queue, startedAt] of rows) countDone(tx, queue, 1, tx.now - startedAt);
  const having = (bit: number): number[] =>
    claims.filter(([, special]) => special & bit).map(([task]) => task);
  freeGroups(tx, inTheirOrder(successes, having(GROUPED), rows));
  startKeyWindows(tx, having(KEYED));
  for (const seq of having(STEPPED)) tx.run(DELETE_STEPS, seq);
  const settled = new Set(ended);
  for (const each of successes) each.settled = settled.has(each.seq);
}

/** In the order of the settlements: SQLite returns rows in any order. */
function inTheirOrder(
  successes: readonly Success[],
  seqs: readonly number[],
  rows: readonly [task: number, queue: number, startedAt: number][],
): { seq: number; queue: number }[] {
  if (seqs.length === 0) return [];
  const wanted = new Set(seqs);
  const queues = new Map(rows.map(([task, queue]) => [task, queue]));
  return successes.filter(({ seq }) => wanted.has(seq)).map(({ seq }) => ({ seq, queue: queues.get(seq)! }));
}

function countDone(tx: Tx, id: number, count: number, serviceMs: number): void {
  const queue = tx.queues.of(id);
  tx.counters.count(queue, "claimed", -count);
  tx.counters.count(queue, "done", count);
  const flow = tx.counters.flow(queue);
  flow.done += count;
  flow.serviceMs += serviceMs;
  if (queue.policy.maxConcurrency !== null) tx.batch.hintReady(queue, count);
}
