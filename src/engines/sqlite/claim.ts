import { DibsError } from "../../core/errors.ts";
import type { QueuePolicy } from "../../core/policy.ts";
import { type Body, type ClaimedTask, type Headers, JSON_TYPE } from "../../core/task.ts";
import { BOUNDS, type ClaimOutcome, type ClaimRequest } from "../../engine/engine.ts";
import { bodyFrom } from "./body.ts";
import { chunks, sized } from "./chunks.ts";
import { taskBySeq } from "./held.ts";
import { end, isOutlived, type Mover, unwatchTtl } from "./line.ts";
import { type OfRunRow, placeFrom } from "./runs.ts";
import { GROUPED, OF_RUN, STEPPED, TOLD } from "./special.ts";
import { sweep, sweepIsDue } from "./sweep.ts";
import type { Queue, Tx } from "./tx.ts";

export function claim(tx: Tx, request: ClaimRequest): ClaimOutcome {
  const session = request.session === undefined ? null : liveSession(tx, request.session);
  sweep(tx);
  const outcome: ClaimOutcome = { tasks: [], policies: {}, passed: false, more: false };
  if (request.share !== undefined) {
    for (const name of request.queues) take(tx, request, session, name, request.share, outcome);
  }
  for (const name of request.queues) take(tx, request, session, name, request.max, outcome);
  if (session) signOfLife(tx, session, request, outcome);
  return outcome;
}

const READY_EXISTS = `SELECT 1 FROM ready WHERE queue = ? LIMIT 1`;

/** The answer, where there is nothing to do: it takes no lock. Undefined where there is. */
export function claimNothing(tx: Tx, request: ClaimRequest): ClaimOutcome | undefined {
  if (request.session !== undefined) liveSession(tx, request.session);
  if (sweepIsDue(tx)) return undefined;
  let passed = false;
  for (const name of request.queues) {
    const queue = tx.queueNamed(name);
    if (request.max <= 0 || !queue || queue.paused) continue;
    if (tx.get(READY_EXISTS, queue.id)) return undefined;
    const kept = lookAtKept(tx, queue, request.worker);
    if (kept.allowed.length > 0) return undefined;
    passed ||= kept.passed;
  }
  return { tasks: [], policies: {}, passed, more: false };
}

interface SessionRow {
  id: number;
  lease: number;
  beat_at: number;
  mixed: number;
  overdue_at: number | null;
}

const SESSION = `SELECT id, lease, beat_at, mixed, overdue_at FROM session WHERE id = ?`;

/** One past its lease is refused even before a sweep has found it: its new claims would hang on nothing. */
function liveSession(tx: Tx, id: number): SessionRow {
  const session = tx.get<SessionRow>(SESSION, id);
  if (!session || session.beat_at + session.lease <= tx.awake) throw sessionGone(id);
  return session;
}

export function sessionGone(session: number): DibsError {
  return new DibsError(
    "CLAIM_LOST",
    `Session ${session} has ended: it gave no sign of life for a whole lease, and what it held went to others. Join again.`,
  );
}

const SIGN_OF_LIFE = `UPDATE session SET beat_at = ?, mixed = ?, overdue_at = ? WHERE id = ?`;

/** A queue's lease may be shorter than the time since the last beat, and counts from here. */
function signOfLife(tx: Tx, session: SessionRow, request: ClaimRequest, outcome: ClaimOutcome): void {
  if (outcome.tasks.length === 0) return;
  let { mixed, overdue_at: overdueAt } = session;
  for (const policy of Object.values(outcome.policies)) {
    if (leaseOf(request, session, policy) !== session.lease) mixed = 1;
    overdueAt = Math.min(overdueAt ?? Number.POSITIVE_INFINITY, tx.awake + policy.timeout);
  }
  const same = session.beat_at === tx.awake && session.mixed === mixed && session.overdue_at === overdueAt;
  if (same) return;
  tx.run(SIGN_OF_LIFE, tx.awake, mixed, overdueAt, session.id);
  tx.serving.clear();
}

/** A task in line: as an array, which is read faster than an object. */
type LineRow = [
  rank: number,
  pos: number,
  task: number,
  failures: number,
  /** What it has that most tasks have not: see special.ts. */
  special: number,
  createdAt: number,
  data: Body,
];

interface Special {
  group_key: string | null;
  expires_at: number | null;
  max_attempts: number | null;
  content_type: string | null;
  headers: string | null;
}

interface KeptRow {
  rank: number;
  pos: number;
  task: number;
  failures: number;
  special: number;
  avoid: string;
}

// Every column read costs; what few tasks have is asked for those alone.
// CROSS JOIN fixes the order: the line first, then its tasks by number.
const HEAD_OF_LINE = `
  SELECT rank, ready.pos, task, failures, special, task.created_at, task.data
  FROM ready CROSS JOIN task ON task.seq = ready.task
  WHERE ready.queue = ? ORDER BY rank, ready.pos LIMIT 0 + ?`;
const KEPT = `SELECT rank, pos, task, failures, special, avoid FROM kept WHERE queue = ? ORDER BY rank, pos LIMIT 0 + ?`;
const KEPT_TASK = `SELECT created_at, data FROM task WHERE seq = ?`;
const SPECIALS = sized(
  `SELECT seq, group_key, expires_at, max_attempts, content_type, headers
   FROM (VALUES `,
  () => `(?)`,
  `) CROSS JOIN task ON task.seq = column1`,
);
const PLAIN: Special = {
  group_key: null,
  expires_at: null,
  max_attempts: null,
  content_type: null,
  headers: null,
};

/** Up to `count` tasks from one queue, in its order. */
function take(
  tx: Tx,
  request: ClaimRequest,
  session: SessionRow | null,
  name: string,
  count: number,
  outcome: ClaimOutcome,
): void {
  const room = Math.min(count, request.max - outcome.tasks.length);
  const queue = tx.queueNamed(name);
  if (room <= 0 || !queue || queue.paused) return;
  const kept = lookAtKept(tx, queue, request.worker);
  outcome.passed ||= kept.passed;
  const ready = tx.rows<LineRow>(HEAD_OF_LINE, queue.id, room);
  const allowed = kept.allowed.map((row) => lineRowFrom(tx, row));
  const taken = allowed.length === 0 ? ready : [...ready, ...allowed].sort(inLine).slice(0, room);
  if (taken.length === 0) return;

  const terms = termsOf(tx, request, session, queue);
  const specials = specialsOf(tx, taken);
  const outlived = specials.some((special) => isOutlived(tx, special.expires_at));
  if (allowed.length === 0 && !outlived) holdHead(tx, terms, ready);
  else holdEach(tx, terms, taken, specials, allowed);
  tx.count(queue, "ready", -taken.length);

  const runs = runsOf(tx, taken);
  const before = outcome.tasks.length;
  for (const [index, row] of taken.entries()) {
    const special = specials[index]!;
    unwatchTtl(tx, row[2], special.expires_at);
    if (isOutlived(tx, special.expires_at)) {
      end(tx, moverFrom(tx, row), "expired");
      outcome.more = true;
    } else {
      outcome.tasks.push(handOver(tx, terms, row, special, runs.get(row[2])));
    }
  }
  countClaimed(tx, queue, outcome.tasks, before);
  if (outcome.tasks.length > before) outcome.policies[name] = queue.policy;
}

function countClaimed(tx: Tx, queue: Queue, tasks: readonly ClaimedTask[], from: number): void {
  tx.count(queue, "claimed", tasks.length - from);
  const flow = tx.flow(queue);
  flow.claimed += tasks.length - from;
  for (let i = from; i < tasks.length; i++) flow.waitMs += tx.now - tasks[i]!.createdAt;
}

function lineRowFrom(tx: Tx, { rank, pos, task, failures, special }: KeptRow): LineRow {
  const { created_at: createdAt, data } = tx.get<{ created_at: number; data: Body }>(KEPT_TASK, task)!;
  return [rank, pos, task, failures, special, createdAt, data];
}

/** What is special about each of them. */
function specialsOf(tx: Tx, rows: readonly LineRow[]): Special[] {
  const found = new Map<number, Special>();
  const special = rows.filter((row) => row[4] & (TOLD | GROUPED)).map((row) => row[2]);
  for (const chunk of chunks(special)) {
    for (const row of tx.all<Special & { seq: number }>(SPECIALS(chunk.length), ...chunk))
      found.set(row.seq, row);
  }
  return rows.map((row) => found.get(row[2]) ?? PLAIN);
}

const RUNS = sized(
  `SELECT run_part.task, run_part.stage, run_part.part, run.id AS run, run.created_at, run.pipeline, run.stages
   FROM (VALUES `,
  () => `(?)`,
  `) CROSS JOIN run_part ON run_part.task = column1 CROSS JOIN run ON run.id = run_part.run`,
);

/** The runs that some of them are of. */
function runsOf(tx: Tx, rows: readonly LineRow[]): Map<number, OfRunRow> {
  const found = new Map<number, OfRunRow>();
  for (const chunk of chunks(rows.filter((row) => row[4] & OF_RUN).map((row) => row[2]))) {
    for (const row of tx.all<OfRunRow & { task: number }>(RUNS(chunk.length), ...chunk))
      found.set(row.task, row);
  }
  return found;
}

/** The first of the retried tasks: those this worker may have, and whether there are some it may not. */
function lookAtKept(tx: Tx, queue: Queue, worker: string): { allowed: KeptRow[]; passed: boolean } {
  const kept = tx.all<KeptRow>(KEPT, queue.id, BOUNDS.retryLook);
  const allowed = kept.filter((row) => !(JSON.parse(row.avoid) as string[]).includes(worker));
  return { allowed, passed: allowed.length < kept.length };
}

function inLine(a: LineRow, b: LineRow): number {
  return a[0] - b[0] || a[1] - b[1];
}

function moverFrom(tx: Tx, [, , seq, failures]: LineRow): Mover {
  const task = taskBySeq(tx, seq)!;
  return { ...task, holdsGroup: task.groupKey !== null, failures };
}

/** What all the claims of one call on one queue share. */
interface Terms {
  queue: Queue;
  worker: string;
  session: number | null;
  lease: number;
  deadline: number;
}

function termsOf(tx: Tx, request: ClaimRequest, session: SessionRow | null, queue: Queue): Terms {
  const lease = leaseOf(request, session, queue.policy);
  const deadline = tx.awake + (session === null ? lease : queue.policy.timeout);
  if (session === null && lease <= 0) tx.swept = false;
  return { queue, worker: request.worker, session: session && session.id, lease, deadline };
}

/** A session beats in the rhythm of its own lease: a shorter one would be lost between two signs of life. */
function leaseOf(request: ClaimRequest, session: SessionRow | null, policy: QueuePolicy): number {
  const named = request.lease ?? policy.lease;
  return session === null ? named : Math.max(named, session.lease);
}

/** Fences follow each other in the order of the line. Numbering rows costs as much again as writing them. */
const NUMBERED = `? + row_number() OVER (ORDER BY rank, pos)`;
/** Where places follow each other, a fence is its place and a number: the usual case. */
const BY_PLACE = `? + pos`;

function insertClaims(fence: string, table: "ready" | "kept", where: string): string {
  return `
  INSERT INTO claim (fence, started_at, lease, deadline, session, worker,
    task, queue, failures, special, cancelled)
  SELECT ${fence}, ?, ?, ?, ?, ?, task, queue, failures, special, 0
  FROM ${table} WHERE queue = ? AND ${where} ORDER BY rank, pos`;
}

const UP_TO = `(rank, pos) <= (?, ?)`;
const HOLD_HEAD = insertClaims(NUMBERED, "ready", UP_TO);
const HOLD_RUN = insertClaims(BY_PLACE, "ready", UP_TO);
const DELETE_HEAD = `DELETE FROM ready WHERE queue = ? AND (rank, pos) <= (?, ?)`;

/** Holds the whole head of the line: in SQL, since every value that is passed costs as much as a row. */
function holdHead(tx: Tx, terms: Terms, rows: LineRow[]): void {
  const [firstRank, firstPos] = rows[0]!;
  const [rank, pos] = rows.at(-1)!;
  const isRun = rank === firstRank && pos - firstPos === rows.length - 1;
  const values = [...claimValues(tx, terms), terms.queue.id, rank, pos] as const;
  if (isRun) tx.run(HOLD_RUN, tx.fence + 1 - firstPos, ...values);
  else tx.run(HOLD_HEAD, tx.fence, ...values);
  tx.run(DELETE_HEAD, terms.queue.id, rank, pos);
}

function claimValues(
  tx: Tx,
  { lease, deadline, session, worker }: Terms,
): [number, number, number, number | null, string] {
  return [tx.now, lease, deadline, session, worker];
}

const AT = `rank = ? AND pos = ?`;
const HOLD_READY = insertClaims(NUMBERED, "ready", AT);
const HOLD_KEPT = insertClaims(NUMBERED, "kept", AT);
const DELETE_READY = `DELETE FROM ready WHERE queue = ? AND rank = ? AND pos = ?`;
const DELETE_KEPT = `DELETE FROM kept WHERE queue = ? AND rank = ? AND pos = ?`;

/** One by one, where some are retried ones or have outlived their time: those are only taken out of the line. */
function holdEach(tx: Tx, terms: Terms, taken: LineRow[], specials: Special[], kept: LineRow[]): void {
  const values = claimValues(tx, terms);
  let { fence } = tx;
  for (const [index, row] of taken.entries()) {
    const place = [terms.queue.id, row[0], row[1]] as const;
    const [hold, remove] = kept.includes(row) ? [HOLD_KEPT, DELETE_KEPT] : [HOLD_READY, DELETE_READY];
    if (!isOutlived(tx, specials[index]!.expires_at)) tx.run(hold, fence++, ...values, ...place);
    tx.run(remove, ...place);
  }
}

const LEFT = `
  SELECT max(kind <> 'feedback') AS stepped, max(CASE kind WHEN 'feedback' THEN value END) AS feedback
  FROM step WHERE task = ?`;

/** What earlier attempts mean for this one. */
function leftBehind(tx: Tx, seq: number): { stepped?: true; feedback?: string } {
  const { stepped, feedback } = tx.get<{ stepped: number; feedback: string | null }>(LEFT, seq)!;
  return { ...(stepped === 1 && { stepped: true as const }), ...(feedback !== null && { feedback }) };
}

/** What the worker gets. The fences were given out in the same order. */
function handOver(
  tx: Tx,
  { queue, worker }: Terms,
  row: LineRow,
  special: Special,
  run: OfRunRow | undefined,
): ClaimedTask {
  const [rank, , seq, failures, bits, createdAt, data] = row;
  const attempt = failures + 1;
  const id = tx.id(createdAt, seq);
  if (tx.listeners > 0) {
    tx.announce({ type: "task.claimed", at: tx.now, queue: queue.name, taskId: id, worker, attempt });
  }
  return {
    id,
    fence: ++tx.fence,
    queue: queue.name,
    data: bodyFrom(data),
    contentType: special.content_type ?? JSON_TYPE,
    headers: special.headers === null ? {} : (JSON.parse(special.headers) as Headers),
    attempt,
    maxAttempts: special.max_attempts ?? queue.policy.maxAttempts,
    priority: 0 - rank,
    groupKey: special.group_key,
    createdAt,
    ...(bits & STEPPED && leftBehind(tx, seq)),
    ...(run && { run: placeFrom(tx, run) }),
  };
}
