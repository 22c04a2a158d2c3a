import type { DeadFilter, DeadPattern, Headers, PatternKey, TaskError } from "../../core/task.ts";
import { announceTask, comeBack } from "./line.ts";
import { type Found, findMany, remove, takeOut } from "./place.ts";
import { fromText, toText } from "./text.ts";
import type { Queue, Tx } from "./tx.ts";

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
const WITH_WORDS = `
  SELECT dead.task, died_at, dead.fingerprint, attempt.name, attempt.message
  FROM dibs.dead JOIN dibs.attempt ON attempt.task = dead.task AND attempt.fence = dead.fence
  WHERE queue = $1 AND (died_at, dead.task) > ($2, $3)
  ORDER BY died_at, dead.task LIMIT $4`;
const BY_ID = `
  SELECT dead.task, died_at, dead.fingerprint, attempt.name, attempt.message
  FROM unnest($2::int8[], $3::int8[]) AS wanted (seq, created_at)
  JOIN dibs.task ON task.seq = wanted.seq AND task.created_at = wanted.created_at
  JOIN dibs.dead ON dead.task = task.seq AND dead.queue = $1
  JOIN dibs.attempt ON attempt.task = dead.task AND attempt.fence = dead.fence`;

interface Letter extends DeadRow {
  fingerprint: string;
  name: string;
  message: string;
}

type After = [diedAt: number, task: number];

/** Letters looked at in one round trip. */
const PAGE = 1_000;

/** Those the filter names, the earliest death first; at most `limit` after the given one. */
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
    if ("message" in row && !matches(row as Letter, filter)) continue;
    found.push({ task: row.task, died_at: row.died_at });
    if (found.length >= limit) break;
  }
  return found;
}

/** In order, and not yet looked at more closely where there are words to compare. */
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

/** The words are compared here: what lower() makes of them depends on the database's locale. */
function matches({ fingerprint, name, message }: Letter, { pattern, error }: DeadFilter): boolean {
  return (
    (pattern === undefined || fromText(fingerprint) === pattern) &&
    (error === undefined ||
      `${fromText(name)}: ${fromText(message)}`.toLowerCase().includes(error.toLowerCase()))
  );
}

const KINDS = `
  SELECT task, died_at, fingerprint AS pattern FROM dibs.dead WHERE queue = $1 AND (died_at, task) > ($2, $3)
  ORDER BY died_at, task LIMIT $4`;
const WORKERS = `
  SELECT task, died_at, worker AS pattern FROM dibs.dead WHERE queue = $1 AND (died_at, task) > ($2, $3)
  ORDER BY died_at, task LIMIT $4`;
const HEADERS = `
  SELECT dead.task, died_at, task.headers AS pattern FROM dibs.dead JOIN dibs.task ON task.seq = dead.task
  WHERE dead.queue = $1 AND (died_at, dead.task) > ($2, $3) ORDER BY died_at, dead.task LIMIT $4`;
const SAMPLES = `
  SELECT dead.task, task.created_at, attempt.name, attempt.message, attempt.stack
  FROM unnest($1::int8[]) AS wanted (task)
  JOIN dibs.dead ON dead.task = wanted.task
  JOIN dibs.task ON task.seq = dead.task
  JOIN dibs.attempt ON attempt.task = dead.task AND attempt.fence = dead.fence`;

interface Kind {
  pattern: string;
  count: number;
  firstAt: number;
  lastAt: number;
  last: number;
}

export async function patterns(tx: Tx, name: string, by: PatternKey, limit: number): Promise<DeadPattern[]> {
  const queue = tx.queueNamed(name);
  if (!queue) return [];
  const kinds = new Map<string, Kind>();
  let total = 0;
  for await (const { pattern, died_at: at, task } of deaths(tx, queue, by)) {
    total++;
    const kind = kinds.get(pattern);
    if (kind) Object.assign(kind, { count: kind.count + 1, lastAt: at, last: task });
    else kinds.set(pattern, { pattern, count: 1, firstAt: at, lastAt: at, last: task });
  }
  const most = [...kinds.values()]
    .sort((a, b) => b.count - a.count || (a.pattern < b.pattern ? -1 : 1))
    .slice(0, limit);
  const samples = await samplesOf(tx, most);
  return most.map(({ pattern, count, firstAt, lastAt, last }) => ({
    pattern,
    count,
    share: count / total,
    firstAt,
    lastAt,
    sample: samples.get(last)!,
  }));
}

async function* deaths(
  tx: Tx,
  queue: Queue,
  by: PatternKey,
): AsyncIterableIterator<DeadRow & { pattern: string }> {
  const sql = by === "fingerprint" ? KINDS : by === "worker" ? WORKERS : HEADERS;
  const header = by.slice("header:".length);
  const start: After = [Number.MIN_SAFE_INTEGER, 0];
  for await (const row of pages<DeadRow & { pattern: string | null }>(tx, sql, queue, start, [])) {
    if (sql !== HEADERS) {
      yield { ...row, pattern: fromText(row.pattern!) };
      continue;
    }
    const headers = row.pattern === null ? {} : (JSON.parse(row.pattern) as Headers);
    yield { ...row, pattern: Object.hasOwn(headers, header) ? headers[header]! : "" };
  }
}

async function samplesOf(tx: Tx, kinds: Kind[]): Promise<Map<number, DeadPattern["sample"]>> {
  const rows = await tx.all<TaskError & { task: number; created_at: number }>(
    SAMPLES,
    kinds.map(({ last }) => last),
  );
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

// The row is rewritten, payload and all: the one thing that is worth it.
const REDRIVE = `UPDATE dibs.task SET pos = $1, expires_at = NULL WHERE seq = $2`;
// Its key stands for it again, unless a newer task has taken that meanwhile.
const REVIVE_KEY = `
  INSERT INTO dibs.idempotency (queue, key, task, created_at) VALUES ($1, $2, $3, $4)
  ON CONFLICT (queue, key) DO UPDATE
  SET task = excluded.task, created_at = excluded.created_at, forget_at = NULL, state = NULL
  WHERE idempotency.task = excluded.task OR idempotency.forget_at <= $5`;

export async function redrive(
  tx: Tx,
  name: string,
  filter: DeadFilter,
  spacing: number,
): Promise<{ count: number }> {
  const taken: Found[] = [];
  for (const task of await lettersToMove(tx, name, filter)) if (await takeOut(tx, task)) taken.push(task);
  const places = await tx.numbers("seq", taken.length);
  for (const [index, task] of taken.entries()) {
    task.pos = places[index]!;
    // Whoever redrives it wants it done, however late.
    task.expiresAt = null;
    tx.send(REDRIVE, task.pos, task.seq);
    if (task.key !== null) tx.send(REVIVE_KEY, task.queue.id, task.key, task.seq, task.createdAt, tx.now);
    announceTask(tx, "task.redriven", task, {});
    await comeBack(tx, task, Math.floor(index * spacing));
  }
  return { count: taken.length };
}

export async function discard(tx: Tx, name: string, filter: DeadFilter): Promise<{ count: number }> {
  let count = 0;
  for (const task of await lettersToMove(tx, name, filter)) if (await remove(tx, task)) count++;
  return { count };
}

/** Those that are dead still: another process may have redriven some between two statements. */
async function lettersToMove(tx: Tx, name: string, filter: DeadFilter): Promise<Found[]> {
  const letters = await deadLetters(tx, tx.queueNamed(name), filter);
  const found = await findMany(
    tx,
    letters.map(({ task }) => task),
  );
  return found.filter((task) => task.place.state === "dead");
}
