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
import { enterFirstState, type NewTaskRow } from "../line/first-state.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { announceTask, end } from "../line/line.ts";
import { lookUp, rowsOf, TASK_OF } from "../statements/look-up.ts";
import { type Found, findMany } from "../line/find-task.ts";
import { keyPlaces } from "../line/keys.ts";
import { remove } from "../line/remove.ts";
import { takeTogether } from "../line/take-out.ts";
import { reviveRelatives } from "../flows/children.ts";
import { reviveParts } from "../flows/runs.ts";
import { DELETE_ALL_TIMEOUTS, DELETE_ALL_STEPS, withSteps } from "../flows/steps.ts";
import { fromText, numbers, toText } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/** The verbs of dead letters: `patterns`, `redrive`, `discard`. Also reads dead letters for `list`. */

export interface DeadRow {
  task: number;
  died_at: number;
}

// After the given one, the earliest death first.
const ALL = `
  SELECT task, died_at FROM dibs.dead WHERE queue = $1 AND (died_at, task) > ($2, $3)
  ORDER BY died_at, task LIMIT $4`;
const OF_KIND = `
  SELECT task, died_at FROM dibs.dead WHERE queue = $1 AND fingerprint = $5 AND (died_at, task) > ($2, $3)
  ORDER BY died_at, task LIMIT $4`;
const LAST_WORDS = lookUp("attempt", `attempt.task = dead.task AND attempt.fence = dead.fence`);
const WITH_WORDS = `
  SELECT dead.task, died_at, dead.fingerprint, attempt.name, attempt.message
  FROM dibs.dead CROSS JOIN ${LAST_WORDS}
  WHERE queue = $1 AND (died_at, dead.task) > ($2, $3)
  ORDER BY died_at, dead.task LIMIT $4`;
const BY_ID = `
  SELECT dead.task, died_at, dead.fingerprint, attempt.name, attempt.message
  FROM unnest($2::int8[], $3::int8[]) AS wanted (seq, created_at)
  CROSS JOIN ${lookUp("task", `task.seq = wanted.seq AND task.created_at = wanted.created_at`)}
  CROSS JOIN ${lookUp("dead", { task: "task.seq" })}
  CROSS JOIN ${LAST_WORDS} WHERE dead.queue = $1`;

interface Letter extends DeadRow {
  fingerprint: string;
  name: string;
  message: string;
}

type After = [diedAt: number, task: number];

/** Dead letters that are read in one round trip. */
const PAGE = 1_000;

/** Those that match the filter, the earliest death first; at most `limit` after the given one. */
export async function deadLetters(
  tx: Tx,
  queue: Queue | undefined,
  filter: DeadFilter,
  after: After = [Number.MIN_SAFE_INTEGER, 0],
  limit = Number.POSITIVE_INFINITY,
): Promise<DeadRow[]> {
  if (!queue) return [];
  const found: DeadRow[] = [];
  for await (const row of candidates(tx, queue, filter, after)) {
    if ("message" in row && !matchesError(textsOf(row as Letter), filter)) continue;
    found.push({ task: row.task, died_at: row.died_at });
    if (found.length >= limit) break;
  }
  return found;
}

/** In order. Text filters are applied later. */
async function* candidates(
  tx: Tx,
  queue: Queue,
  filter: DeadFilter,
  after: After,
): AsyncIterableIterator<DeadRow> {
  if (filter.ids) {
    yield* await named(tx, queue, filter.ids, after);
    return;
  }
  const ofKind = filter.error === undefined && filter.pattern !== undefined;
  const sql = filter.error !== undefined ? WITH_WORDS : ofKind ? OF_KIND : ALL;
  const more = ofKind ? [toText(filter.pattern!)] : [];
  yield* pages<DeadRow>(tx, sql, queue, after, more);
}

async function* pages<Row extends DeadRow>(
  tx: Tx,
  sql: string,
  queue: Queue,
  after: After,
  more: string[],
): AsyncIterableIterator<Row> {
  for (let from = after; ;) {
    const rows = await tx.all<Row>(sql, queue.id, ...from, PAGE, ...more);
    yield* rows;
    const last = rows.at(-1);
    if (!last || rows.length < PAGE) return;
    from = [last.died_at, last.task];
  }
}

async function named(tx: Tx, queue: Queue, ids: string[], [diedAt, last]: After): Promise<Letter[]> {
  const places = [...new Set(ids)].flatMap((id) => tx.place(id) ?? []);
  const seqs = places.map(({ seq }) => seq);
  const letters = await tx.all<Letter>(
    BY_ID,
    queue.id,
    seqs,
    places.map(({ createdAt }) => createdAt),
  );
  return letters
    .filter((row) => row.died_at > diedAt || (row.died_at === diedAt && row.task > last))
    .sort((a, b) => a.died_at - b.died_at || a.task - b.task);
}

function textsOf({ fingerprint, name, message, ...row }: Letter): Letter {
  return { ...row, fingerprint: fromText(fingerprint), name: fromText(name), message: fromText(message) };
}

const KINDS = `
  SELECT task, died_at, fingerprint AS pattern FROM dibs.dead WHERE queue = $1 AND (died_at, task) > ($2, $3)
  ORDER BY died_at, task LIMIT $4`;
const WORKERS = `
  SELECT task, died_at, worker AS pattern FROM dibs.dead WHERE queue = $1 AND (died_at, task) > ($2, $3)
  ORDER BY died_at, task LIMIT $4`;
const HEADERS = `
  SELECT dead.task, died_at, task.headers AS pattern FROM dibs.dead CROSS JOIN ${TASK_OF("dead")}
  WHERE dead.queue = $1 AND (died_at, dead.task) > ($2, $3) ORDER BY died_at, dead.task LIMIT $4`;
const SAMPLES = `
  SELECT dead.task, task.created_at, attempt.name, attempt.message, attempt.stack
  FROM ${rowsOf("dead", "$1::int8[]")} AS dead CROSS JOIN ${TASK_OF("dead")} CROSS JOIN ${LAST_WORDS}`;

export async function patterns(
  tx: Tx,
  { queue: name, by, limit }: Verbs["patterns"]["in"],
): Promise<DeadPattern[]> {
  const queue = tx.queues.named(name);
  if (!queue) return [];
  const groups = new DeadGroups();
  for await (const { pattern, died_at: at, task } of deaths(tx, queue, by)) groups.add(pattern, at, task);
  const largest = groups.largest(limit);
  const samples = await samplesOf(
    tx,
    largest.map(({ last }) => last),
  );
  const found = largest.flatMap(({ last, ...group }) => {
    const sample = samples.get(last);
    // Another transaction may have redriven or discarded it between two statements. The rest follows in the next
    // page.
    return sample ? { ...group, sample } : [];
  });
  return fitting(found, sizeOfRow);
}

async function* deaths(
  tx: Tx,
  queue: Queue,
  by: PatternKey,
): AsyncIterableIterator<DeadRow & { pattern: string }> {
  const sql = by === "fingerprint" ? KINDS : by === "worker" ? WORKERS : HEADERS;
  const start: After = [Number.MIN_SAFE_INTEGER, 0];
  for await (const row of pages<DeadRow & { pattern: string | null }>(tx, sql, queue, start, [])) {
    if (sql !== HEADERS) {
      yield { ...row, pattern: fromText(row.pattern!) };
      continue;
    }
    const headers = row.pattern === null ? {} : (JSON.parse(row.pattern) as Headers);
    yield { ...row, pattern: headerPattern(headers, by) };
  }
}

async function samplesOf(tx: Tx, tasks: number[]): Promise<Map<number, DeadPattern["sample"]>> {
  const rows = await tx.all<TaskError & { task: number; created_at: number }>(SAMPLES, tasks);
  return new Map(
    rows.map(({ task, created_at: createdAt, name, message, stack }) => [
      task,
      {
        id: tx.id(createdAt, task),
        error: {
          name: fromText(name),
          message: fromText(message),
          stack: stack === null ? null : fromText(stack),
        },
      },
    ]),
  );
}

// This rewrites whole rows with their payloads, which only a redrive does.
const REDRIVE = `
  UPDATE dibs.task SET pos = each.pos, expires_at = NULL
  FROM unnest($1::int8[], $2::int8[]) AS each (seq, pos) WHERE task.seq = each.seq`;
// They take their keys back, unless a newer task has one by now.
const REVIVE_KEYS = `
  INSERT INTO dibs.idempotency (queue, key, task, created_at)
  SELECT * FROM unnest($1::int4[], $2::text[], $3::int8[], $4::int8[]) AS each (queue, key, task, created_at)
  ORDER BY queue, key COLLATE "C"
  ON CONFLICT (queue, key) DO UPDATE
  SET task = excluded.task, created_at = excluded.created_at, forget_at = NULL, state = NULL
  WHERE idempotency.task = excluded.task OR idempotency.forget_at <= $5`;

export async function redrive(
  tx: Tx,
  { queue: name, filter, spacing, fresh = false }: Verbs["redrive"]["in"],
): Promise<{ count: number }> {
  const { taken } = await takeTogether(tx, await lettersToMove(tx, name, filter));
  if (taken.length === 0) return { count: 0 };
  // If groups rotate, entering the line takes a number too, so the tasks go one by one.
  if (taken.length > 1 && taken.some(takesTurns)) {
    for (const [index, task] of taken.entries())
      await bringBack(tx, [task], { delayOf: () => Math.floor(index * spacing), fresh });
  } else await bringBack(tx, taken, { delayOf: (index) => Math.floor(index * spacing), fresh });
  return { count: taken.length };
}

function takesTurns({ queue, groupKey }: Found): boolean {
  return groupKey !== null && queue.policy.groups.fair;
}

/** Tasks that were taken out of `dead`, or of `ended`, run again. */
export async function bringBack(
  tx: Tx,
  taken: Found[],
  { delayOf, fresh }: { delayOf: (index: number) => number; fresh: boolean },
): Promise<Map<number, TaskState>> {
  const places = await tx.numbers("seq", taken.length);
  tx.send(REDRIVE, numbers(taken.map(({ seq }) => seq)), numbers(places));
  await reviveKeys(tx, taken);
  const seqs = taken.map(({ seq }) => seq);
  // Timeouts of signals are forgotten: the signal may come now.
  tx.send(fresh ? DELETE_ALL_STEPS : DELETE_ALL_TIMEOUTS, numbers(seqs));
  const stepped = await withSteps(tx, seqs);
  const isOver = await reviveParts(tx, seqs);
  await reviveRelatives(tx, taken, fresh);
  for (const task of taken) announceTask(tx, "task.redriven", task, {});
  const entered = await enterFirstState(
    tx,
    taken.flatMap((task, index) =>
      isOver.get(task.seq)
        ? []
        : {
            ...redriven(tx, task, places[index]!, delayOf(index)),
            stepped: stepped.has(task.seq) || isOver.has(task.seq),
          },
    ),
  );
  const states = new Map<number, TaskState>([...entered].map(([{ seq }, state]) => [seq, state]));
  for (const task of taken) if (isOver.get(task.seq)) states.set(task.seq, await end(tx, task, "cancelled"));
  return states;
}

/** If several dead letters had the same key, the first one gets it. */
async function reviveKeys(tx: Tx, taken: Found[]): Promise<void> {
  const keyed = taken.filter(({ key }) => key !== null);
  // One statement cannot write a row twice, so each round takes the next one that wants a key.
  for (let rest = keyed; rest.length > 0;) {
    const round = new Map(rest.toReversed().map((task) => [task.key!, task]));
    const tasks = [...round.values()];
    await tx.insert(
      keyPlaces(tasks),
      REVIVE_KEYS,
      numbers(tasks.map(({ queue }) => queue.id)),
      tasks.map(({ key }) => key!),
      numbers(tasks.map(({ seq }) => seq)),
      numbers(tasks.map(({ createdAt }) => createdAt)),
      tx.now,
    );
    rest = rest.filter((task) => !tasks.includes(task));
  }
}

function redriven(tx: Tx, task: Found, pos: number, delay: number): NewTaskRow {
  const { seq, queue, groupKey, key, rank, cost } = task;
  return {
    index: -1,
    rank,
    cost,
    seq,
    pos,
    due: delay > 0 ? tx.now + delay : null,
    queue,
    groupKey,
    key,
    // A redriven task does not expire, because its operator wants it done.
    expiresAt: null,
  };
}

export async function discard(
  tx: Tx,
  { queue: name, filter }: Verbs["discard"]["in"],
): Promise<{ count: number }> {
  const { taken } = await takeTogether(tx, await lettersToMove(tx, name, filter));
  await remove(tx, taken);
  return { count: taken.length };
}

/** Those that are still dead: another process may have redriven some between two statements. */
async function lettersToMove(tx: Tx, name: string, filter: DeadFilter): Promise<Found[]> {
  const letters = await deadLetters(tx, tx.queues.named(name), filter);
  const seqs = letters.map(({ task }) => task);
  await tx.runs.hold(seqs);
  return (await findMany(tx, seqs)).filter((task) => task.place.state === "dead");
}
