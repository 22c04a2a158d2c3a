import { DibsError } from "../../core/errors.ts";
import type { QueuePolicy } from "../../core/policy.ts";
import { type ClaimedTask, type Headers, JSON_TYPE } from "../../core/task.ts";
import { BOUNDS, type ClaimOutcome, type ClaimRequest } from "../../engine/engine.ts";
import { claimHead } from "./claim-head.ts";
import { FEW, shareAhead, withTasks } from "./claim-many.ts";
import { end, isOutlived, type Mover, unwatchTtl } from "./line.ts";
import { Overtaken } from "./overtaken.ts";
import { LEFT_BEHIND, type Left, leftFrom } from "./steps.ts";
import { sweep } from "./sweep.ts";
import { fromColumns } from "./text.ts";
import { type Queue, STARTED, type Tx } from "./tx.ts";

export async function claim(tx: Tx, request: ClaimRequest): Promise<ClaimOutcome> {
  const outcome: ClaimOutcome = { tasks: [], policies: {}, passed: false, more: false };
  const turn: Turn = { swept: tx.swept, session: null, outcome };
  if (request.max <= 0 || !request.queues.some((name) => isOpen(tx, name)))
    await sweepFirst(tx, request, turn);
  else if (request.queues.length > FEW) await takeFromMany(tx, request, turn);
  else await takeFromFew(tx, request, turn);
  if (turn.session) await signOfLife(tx, turn.session, request, outcome);
  return outcome;
}

async function takeFromFew(tx: Tx, request: ClaimRequest, turn: Turn): Promise<void> {
  if (request.share !== undefined) {
    for (const name of request.queues) await take(tx, request, turn, name, request.share);
  }
  for (const name of request.queues) await take(tx, request, turn, name, request.max);
}

/** The same where most may be empty: what time brings comes first, for it may fill some. */
async function takeFromMany(tx: Tx, request: ClaimRequest, turn: Turn): Promise<void> {
  // A claim that is refused changes nothing, not even what time would have brought.
  if (request.session !== undefined) await liveSession(tx, request.session);
  await sweep(tx);
  turn.swept = true;
  let queues = await withTasks(tx, request);
  if (queues.length === 0) return sweepFirst(tx, request, turn);
  const isCut = queues.length === request.max;
  if (request.share !== undefined) {
    shareAhead(tx, request, queues, request.share);
    for (const { name } of queues) await take(tx, request, turn, name, request.share);
    if (turn.outcome.tasks.length < request.max) queues = await withTasks(tx, request);
  }
  for (const { name } of queues) await take(tx, request, turn, name, request.max);
  // Others were about to claim what was found, and there may be more behind.
  if (isCut && turn.outcome.tasks.length === 0) turn.outcome.more = true;
}

/** How far one call has come. */
interface Turn {
  /** What time brings has been dealt with, or there was nothing. */
  swept: boolean;
  /** Looked up where more than one statement is needed. */
  session: SessionRow | null;
  outcome: ClaimOutcome;
}

function isOpen(tx: Tx, name: string): boolean {
  const queue = tx.queueNamed(name);
  return queue !== undefined && !queue.paused;
}

async function sweepFirst(tx: Tx, request: ClaimRequest, turn: Turn): Promise<void> {
  if (request.session !== undefined) turn.session ??= await liveSession(tx, request.session);
  if (!turn.swept) await sweep(tx);
  turn.swept = true;
}

/** Up to `count` tasks from one queue, in its order. */
async function take(tx: Tx, request: ClaimRequest, turn: Turn, name: string, count: number): Promise<void> {
  const { outcome } = turn;
  const room = Math.min(count, request.max - outcome.tasks.length);
  const queue = tx.queueNamed(name);
  if (room <= 0 || !queue || queue.paused) return;
  const head = await claimHead(tx, request, queue, room);
  if (head === "gone") throw sessionGone(request.session!);
  if (head === "busy") {
    await sweepFirst(tx, request, turn);
    return takeSlowly(tx, request, turn, queue, room);
  }
  turn.swept = true;
  if (head.tasks.length === 0) return;
  outcome.tasks.push(...head.tasks);
  outcome.policies[name] = queue.policy;
}

interface SessionRow {
  id: number;
  lease: number;
  beat_at: number;
  mixed: boolean;
  overdue_at: number | null;
}

const SESSION = `SELECT id, lease, beat_at, mixed, overdue_at FROM dibs.session WHERE id = $1`;

/** One past its lease is refused even before a sweep has found it: its new claims would hang on nothing. */
async function liveSession(tx: Tx, id: number): Promise<SessionRow> {
  const session = await tx.get<SessionRow>(SESSION, id);
  if (!session || session.beat_at + session.lease <= tx.awake) throw sessionGone(id);
  return session;
}

export function sessionGone(session: number): DibsError {
  return new DibsError(
    "CLAIM_LOST",
    `Session ${session} has ended: it gave no sign of life for a whole lease, and what it held went to others. Join again.`,
  );
}

const SIGN_OF_LIFE = `
  UPDATE dibs.session SET beat_at = greatest(beat_at, $2), mixed = mixed OR $3, overdue_at = least(overdue_at, $4)
  WHERE id = $1 AND beat_at + lease > $2`;

/** A queue's lease may be shorter than the time since the last beat, and counts from here. */
async function signOfLife(
  tx: Tx,
  session: SessionRow,
  request: ClaimRequest,
  outcome: ClaimOutcome,
): Promise<void> {
  if (outcome.tasks.length === 0) return;
  const policies = Object.values(outcome.policies);
  const mixed = policies.some((policy) => leaseOf(request, session, policy) !== session.lease);
  const overdueAt = tx.awake + Math.min(...policies.map((policy) => policy.timeout));
  tx.serving.clear();
  // Locks the session's row: from here to the commit nobody ends it, and the claims hang on something. One that
  // ended since the claim began has lost them already.
  if ((await tx.run(SIGN_OF_LIFE, session.id, tx.awake, mixed, overdueAt)) === 0) throw new Overtaken();
}

interface LineRow {
  rank: number;
  pos: number;
  task: number;
  failures: number;
  special: boolean;
  created_at: number;
  group_key: string | null;
  expires_at: number | null;
  max_attempts: number | null;
  idempotency_key: string | null;
  content_type: string | null;
  headers: string | null;
  data: string | null;
  bytes: Uint8Array | null;
  left: Left | null;
}

interface KeptRow extends LineRow {
  avoid: string;
}

const COLUMNS = `
  task.created_at, task.group_key, task.expires_at, task.max_attempts, task.idempotency_key, task.content_type,
  task.headers, task.data, task.bytes, ${LEFT_BEHIND("head.special", "task.seq")} AS "left"`;
// What other transactions are about to claim is passed over. The payloads are fetched for the chosen ones only.
const HEAD_OF_LINE = `
  WITH head AS MATERIALIZED (
    SELECT rank, pos, task, failures, special FROM dibs.ready
    WHERE queue = $1 ORDER BY rank, pos LIMIT $2 FOR UPDATE SKIP LOCKED)
  SELECT rank, head.pos, head.task, failures, special, ${COLUMNS}
  FROM head JOIN dibs.task ON task.seq = head.task ORDER BY rank, head.pos`;
const KEPT = `
  WITH head AS MATERIALIZED (
    SELECT rank, pos, task, failures, special, avoid FROM dibs.kept WHERE queue = $1 ORDER BY rank, pos LIMIT $2)
  SELECT rank, head.pos, head.task, failures, special, avoid, ${COLUMNS}
  FROM head JOIN dibs.task ON task.seq = head.task ORDER BY rank, head.pos`;
const LOCK_KEPT = `
  SELECT kept.task FROM unnest($2::int2[], $3::int8[]) AS wanted (rank, pos)
  JOIN dibs.kept ON kept.queue = $1 AND kept.rank = wanted.rank AND kept.pos = wanted.pos
  FOR UPDATE OF kept SKIP LOCKED`;
const DELETE_READY = `
  DELETE FROM dibs.ready USING unnest($2::int2[], $3::int8[]) AS taken (rank, pos)
  WHERE ready.queue = $1 AND ready.rank = taken.rank AND ready.pos = taken.pos`;
const DELETE_KEPT = `
  DELETE FROM dibs.kept USING unnest($2::int2[], $3::int8[]) AS taken (rank, pos)
  WHERE kept.queue = $1 AND kept.rank = taken.rank AND kept.pos = taken.pos`;

/** The same where some are retried ones, or have outlived their time. */
async function takeSlowly(
  tx: Tx,
  request: ClaimRequest,
  { session, outcome }: Turn,
  queue: Queue,
  room: number,
): Promise<void> {
  const kept = await lookAtKept(tx, queue, request.worker);
  outcome.passed ||= kept.passed;
  const ready = await tx.all<LineRow>(HEAD_OF_LINE, queue.id, room);
  const taken = [...ready, ...kept.allowed].sort(inLine).slice(0, room);
  if (taken.length === 0) return;

  takeFrom(
    tx,
    DELETE_READY,
    queue,
    taken.filter((row) => !("avoid" in row)),
  );
  takeFrom(
    tx,
    DELETE_KEPT,
    queue,
    taken.filter((row) => "avoid" in row),
  );
  tx.count(queue, "ready", -taken.length);
  const alive = taken.filter((row) => !isOutlived(tx, row.expires_at));
  const terms = termsOf(tx, request, session, queue);
  const fences = await hold(tx, terms, alive);

  const before = outcome.tasks.length;
  for (const row of taken) {
    unwatchTtl(tx, row.task, row.expires_at);
    const fence = fences.get(row.task);
    if (fence === undefined) {
      await end(tx, moverFrom(queue, row), "expired");
      outcome.more = true;
    } else {
      outcome.tasks.push(handOver(tx, terms, row, fence));
    }
  }
  countClaimed(tx, queue, outcome.tasks, before);
  if (outcome.tasks.length > before) outcome.policies[queue.name] = queue.policy;
}

function takeFrom(tx: Tx, sql: string, queue: Queue, rows: LineRow[]): void {
  if (rows.length > 0)
    tx.send(
      sql,
      queue.id,
      rows.map((row) => row.rank),
      rows.map((row) => row.pos),
    );
}

function countClaimed(tx: Tx, queue: Queue, tasks: readonly ClaimedTask[], from: number): void {
  tx.count(queue, "claimed", tasks.length - from);
  const flow = tx.flow(queue);
  flow.claimed += tasks.length - from;
  for (let i = from; i < tasks.length; i++) flow.waitMs += tx.now - tasks[i]!.createdAt;
}

/** The first of the retried tasks: those this worker may have, and whether there are some it may not. */
async function lookAtKept(
  tx: Tx,
  queue: Queue,
  worker: string,
): Promise<{ allowed: KeptRow[]; passed: boolean }> {
  const kept = await tx.all<KeptRow>(KEPT, queue.id, BOUNDS.retryLook);
  const allowed = kept.filter((row) => !(JSON.parse(row.avoid) as string[]).includes(worker));
  const passed = allowed.length < kept.length;
  if (allowed.length === 0) return { allowed, passed };
  const ranks = allowed.map((row) => row.rank);
  const locked = await tx.all<{ task: number }>(
    LOCK_KEPT,
    queue.id,
    ranks,
    allowed.map((row) => row.pos),
  );
  const free = new Set(locked.map((row) => row.task));
  return { allowed: allowed.filter((row) => free.has(row.task)), passed };
}

function inLine(a: LineRow, b: LineRow): number {
  return a.rank - b.rank || a.pos - b.pos;
}

function moverFrom(queue: Queue, row: LineRow): Mover {
  return {
    seq: row.task,
    queue,
    createdAt: row.created_at,
    rank: row.rank,
    pos: row.pos,
    groupKey: row.group_key,
    holdsGroup: row.group_key !== null,
    expiresAt: row.expires_at,
    maxAttempts: row.max_attempts,
    key: row.idempotency_key,
    failures: row.failures,
    stepped: row.special,
  };
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

// Fences follow each other in the order of the line.
const HOLD = `
  INSERT INTO dibs.claim (fence, started_at, lease, deadline, session, worker, queue, task, failures, special, cancelled)
  SELECT nextval('dibs.fence'), ${STARTED("$1")}, $2, $3, $4, $5, $6, task, failures, special, false
  FROM unnest($7::int8[], $8::int2[], $9::bool[]) AS each (task, failures, special)
  RETURNING task, fence`;

async function hold(tx: Tx, terms: Terms, rows: LineRow[]): Promise<Map<number, number>> {
  if (rows.length === 0) return new Map();
  const { lease, deadline, session, worker, queue } = terms;
  const held = await tx.take<{ task: number; fence: number }>(
    HOLD,
    tx.startedAt,
    lease,
    deadline,
    session,
    worker,
    queue.id,
    rows.map((row) => row.task),
    rows.map((row) => row.failures),
    rows.map((row) => row.special),
  );
  return new Map(held.map((row) => [row.task, row.fence]));
}

/** What the worker gets. */
function handOver(tx: Tx, { queue, worker }: Terms, row: LineRow, fence: number): ClaimedTask {
  const attempt = row.failures + 1;
  const id = tx.id(row.created_at, row.task);
  if (tx.listeners > 0) {
    tx.announce({ type: "task.claimed", at: tx.now, queue: queue.name, taskId: id, worker, attempt });
  }
  return {
    id,
    fence,
    queue: queue.name,
    data: fromColumns(row.data, row.bytes)!,
    contentType: row.content_type ?? JSON_TYPE,
    headers: row.headers === null ? {} : (JSON.parse(row.headers) as Headers),
    attempt,
    maxAttempts: row.max_attempts ?? queue.policy.maxAttempts,
    priority: 0 - row.rank,
    groupKey: row.group_key,
    createdAt: row.created_at,
    ...leftFrom(tx, row.left),
  };
}
