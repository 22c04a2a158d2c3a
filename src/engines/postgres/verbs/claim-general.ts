import type { Allowance } from "../../../core/queue/allowance.ts";
import {
  type AnswerSize,
  countFitting,
  inlineBytes,
  sizeOfClaimed,
} from "../../../core/answer/answer-size.ts";
import { governsGroups } from "../../../core/queue/policy.ts";
import { spend } from "../../../core/queue/rate.ts";
import { type Body, FIRST_RANK, fromRank } from "../../../core/task/task.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import type { ClaimOutcome, ClaimRequest } from "../../../engine/claim-request.ts";
import { allAnswered } from "../statements/all-answered.ts";
import { THIS_MOMENT } from "../statements/clock.ts";
import { LARGE_APART, readLarge } from "./claim-size.ts";
import { countClaimed, handOver, type Taken } from "./hand-over.ts";
import { aboveFloor } from "../line/floors.ts";
import { isLimitedNow, withinRates } from "../limits/gates.ts";
import { type HeadRow, transitionTaskFrom } from "../line/held.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { fillLanes } from "../limits/lane-line.ts";
import { deadlineOf, leaseOfClaim } from "../../../core/task/lease.ts";
import { isOutlived } from "../../../core/task/transition.ts";
import { end, unwatchTtl } from "../line/line.ts";
import { lookUp, TASK_OF } from "../statements/look-up.ts";
import type { Line } from "../line/enter-line.ts";
import { HANDLER_STATE, type HandlerState } from "../flows/steps.ts";
import { fromColumns } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * The general path of `claim`, for a queue with limits, a retry-elsewhere line or expired tasks. claim.ts calls it for
 * each queue.
 */

export interface SessionRow {
  id: number;
  lease: number;
  heartbeat_at: number;
  mixed: boolean;
  overdue_at: number | null;
}

interface LineRow extends HeadRow {
  /** The ctid of its row. It does not change while the row is locked. */
  place: string;
  content_type: string | null;
  headers: string | null;
  data: string | null;
  bytes: Uint8Array | null;
  /** The size of a large payload, which has not been read. */
  large: number | null;
  left: HandlerState | null;
}

/** A task of the retry-elsewhere line, as it was read before it is locked. */
interface ElsewhereRow extends Omit<LineRow, "place"> {
  avoid: string;
}

type FoundRow = LineRow & { table: Line };

const COLUMNS = (atOnce: string): string => `
  task.created_at, task.group_key, task.expires_at, task.max_attempts, task.cost, task.idempotency_key,
  task.content_type, task.headers, ${LARGE_APART(atOnce)}, ${HANDLER_STATE("head.special", "task.seq")} AS "left"`;
// Rows that other transactions have locked are skipped. Payloads are read for the claimed tasks only.
const HEAD_OF_LINE = `
  WITH head AS MATERIALIZED (
    SELECT ctid AS place, rank, pos, task, failures, special FROM dibs.ready
    WHERE queue = $1 AND rank < $3::int2 AND ${aboveFloor("$1")}
    ORDER BY rank, pos LIMIT $2 FOR UPDATE SKIP LOCKED)
  SELECT place, rank, head.pos, head.task, failures, special, ${COLUMNS("$4")}
  FROM head CROSS JOIN ${TASK_OF("head")} ORDER BY rank, head.pos`;
const ELSEWHERE = `
  WITH head AS MATERIALIZED (
    SELECT rank, pos, task, failures, special, avoid FROM dibs.ready_elsewhere
    WHERE queue = $1 AND rank < $3::int2 AND ${aboveFloor("$1", "ready_elsewhere")} ORDER BY rank, pos LIMIT $2)
  SELECT rank, head.pos, head.task, failures, special, avoid, ${COLUMNS("$4")}
  FROM head CROSS JOIN ${TASK_OF("head")} ORDER BY rank, head.pos`;
// Locks only rows that are still as they were read: meanwhile a task may have failed again, or got a signal, and have a
// new row at the same position.
const LOCK_ELSEWHERE = `
  SELECT ready_elsewhere.task, ready_elsewhere.place FROM unnest($2::int2[], $3::int8[], $4::int2[], $5::bool[]) AS seen (rank, pos, failures, special)
  CROSS JOIN ${lookUp(
    "ready_elsewhere",
    `ready_elsewhere.queue = $1 AND ready_elsewhere.rank = seen.rank AND ready_elsewhere.pos = seen.pos
      AND ready_elsewhere.failures = seen.failures AND ready_elsewhere.special = seen.special`,
    { columns: "task, ctid AS place", lock: "FOR UPDATE SKIP LOCKED" },
  )}`;
// Tasks whose groups stick to this worker.
const STICKY = `
  WITH head AS MATERIALIZED (
    SELECT ctid AS place, rank, pos, task, failures, special FROM dibs.ready_sticky
    WHERE session = $4 AND queue = $1 AND rank < $3::int2 ORDER BY rank, pos LIMIT $2 FOR UPDATE SKIP LOCKED)
  SELECT place, rank, head.pos, head.task, failures, special, ${COLUMNS("$5")}
  FROM head CROSS JOIN ${TASK_OF("head")} ORDER BY rank, head.pos`;
const STICKY_TO_OTHERS = `
  SELECT 1 FROM dibs.ready_sticky WHERE queue = $1 AND rank < $2::int2 AND session IS DISTINCT FROM $3::int8 LIMIT 1`;
const DELETE_FROM = (table: Line): string => `DELETE FROM dibs.${table} WHERE ctid = ANY ($1::tid[])`;
const NONE = { allowed: [], passed: false };
/** Above every rank. */
const LAST_RANK = 32_767;

/** The progress of one claim through its queues. */
export interface Turn {
  /** Everything that is due was processed, or nothing was due. */
  swept: boolean;
  /** The claim's session; read only if the claim needs more than one statement. */
  session: SessionRow | null;
  outcome: ClaimOutcome;
  /** How many tasks this claim has locked and left in the line. Until the commit, other claims skip them. */
  left: Map<Queue, number>;
  size: AnswerSize;
}

/**
 * Claims from the line, as far as limits allow. Returns how many tasks left it, when the next may start, and whether
 * another call may find more: tasks were promoted, or more of the retry-elsewhere line can be read.
 */
export async function takeOnGeneralPath(
  tx: Tx,
  request: ClaimRequest,
  { session, outcome, left, size }: Pick<Turn, "session" | "outcome" | "left" | "size">,
  queue: Queue,
  { room, urgentOnly }: Pick<Allowance, "room" | "urgentOnly">,
): Promise<{ taken: number; more: boolean; next: number }> {
  const { promotions } = tx.limits;
  const line = await readLine(tx, request, queue, room, urgentOnly);
  outcome.passed ||= line.passed;
  const fit = countFitting(line.rows.slice(0, room), sizeOf, size);
  const { taken, next } = queue.limited
    ? await withinRates(tx, queue, line.rows, fit)
    : { taken: line.rows.slice(0, fit), next: tx.now };
  const isCut = taken.length === fit && fit < Math.min(room, line.rows.length);
  if (isCut) {
    size.close();
    outcome.more = true;
  }
  // While a queue has limits, its gate keeps other claims out, so none skips these rows. Without limits, others may.
  if (!isLimitedNow(queue) && line.rows.length > taken.length)
    left.set(queue, line.rows.length - taken.length);
  if (taken.length === 0) return { taken: 0, more: false, next };
  // Expired tasks end here, which changes their runs.
  await tx.runs.hold(taken.flatMap((row) => (isOutlived(row.expires_at, tx.now) ? row.task : [])));

  for (const table of ["ready", "ready_elsewhere", "ready_sticky"] as const) {
    const rows = taken.filter((row) => row.table === table);
    const places = rows.map(({ place }) => place);
    if (places.length > 0) tx.send(DELETE_FROM(table), places);
    for (const { group_key: key } of rows) tx.limits.movedInLine(queue, key, -1);
  }
  tx.counters.count(queue, "ready", -taken.length);
  const alive = taken.filter((row) => !isOutlived(row.expires_at, tx.now));
  const terms = termsOf(tx, request, session, queue);
  const isGoverned = queue.limited && governsGroups(queue.policy);
  const large = alive.filter((row) => row.large !== null).map(({ task }) => task);
  const [fences, payloads] = await allAnswered([
    insertClaims(tx, terms, alive),
    readLarge(tx, large),
    isGoverned ? tx.limits.lanes(queue, keysOf(alive)) : undefined,
  ]);

  const count = outcome.tasks.length;
  for (const row of taken) {
    unwatchTtl(tx, row.task, row.expires_at);
    const fence = fences.get(row.task);
    if (fence === undefined) {
      await end(tx, transitionTaskFrom(queue, row), "expired");
      outcome.more = true;
    } else {
      size.add(sizeOf(row));
      outcome.tasks.push(handOver(tx, queue, request.worker, takenFrom(row, fence, payloads.get(row.task))));
    }
  }
  countClaimed(tx, queue, outcome.tasks.slice(count));
  if (outcome.tasks.length > count) outcome.policies[queue.name] = queue.policy;
  if (isGoverned) await promoteNext(tx, queue, session, alive);
  const more =
    !isCut && (tx.limits.promotions > promotions || taken.some((row) => row.table === "ready_elsewhere"));
  return { taken: taken.length, more, next };
}

/** The tasks of the line that a worker may claim. */
interface Seen {
  rows: FoundRow[];
  /** Some tasks are for other workers only. */
  passed: boolean;
}

/** Reads at most `room` tasks; one more if the queue has a rate, to find out when that one may start. */
async function readLine(
  tx: Tx,
  request: ClaimRequest,
  queue: Queue,
  room: number,
  urgentOnly: boolean,
): Promise<Seen> {
  const most = queue.limited && queue.policy.rateLimit.length > 0 ? room + 1 : room;
  const before = urgentOnly ? FIRST_RANK : LAST_RANK;
  // Sent together: each would be a round trip.
  const [elsewhere, ready, sticky] = await allAnswered([
    readElsewhere(tx, queue, request, before),
    tx.all<LineRow>(HEAD_OF_LINE, queue.id, most, before, inlineBytes(request.max)),
    queue.limited ? readSticky(tx, queue, request, most, before) : NONE,
  ]);
  const rows = [
    ...foundIn("ready", ready),
    ...foundIn("ready_elsewhere", elsewhere.allowed),
    ...foundIn("ready_sticky", sticky.allowed),
  ];
  return { rows: rows.sort(inLine), passed: elsewhere.passed || sticky.passed };
}

/** How much of the answer size the task takes. */
function sizeOf({ data, bytes, large, headers }: LineRow): number {
  return sizeOfClaimed(large ?? (data ?? bytes!).length, headers?.length ?? 0);
}

function takenFrom(row: LineRow, fence: number, payload: Body | undefined): Taken {
  return {
    ...{ seq: row.task, fence, failures: row.failures, createdAt: row.created_at, left: row.left },
    ...{ rank: row.rank, priority: fromRank(row.rank).priority, groupKey: row.group_key, cost: row.cost },
    data: payload ?? fromColumns(row.data, row.bytes)!,
    contentType: row.content_type,
    headers: row.headers,
    maxAttempts: row.max_attempts,
  };
}

function keysOf(rows: readonly LineRow[]): string[] {
  return [...new Set(rows.flatMap((row) => row.group_key ?? []))];
}

function foundIn(table: Line, rows: LineRow[]): FoundRow[] {
  return rows.map((row) => ({ ...row, table }));
}

/** Counts each start for its group, and promotes the next tasks. */
async function promoteNext(tx: Tx, queue: Queue, session: SessionRow | null, rows: LineRow[]): Promise<void> {
  const grouped = rows.filter((row) => row.group_key !== null);
  if (grouped.length === 0) return;
  const { rateLimit, sticky } = queue.policy.groups;
  const keys = keysOf(grouped);
  const lanes = new Map((await tx.limits.lanes(queue, keys)).map((lane) => [lane.key, lane]));
  for (const { group_key: key, cost } of grouped) {
    const lane = lanes.get(key!)!;
    lane.meter = spend(rateLimit, lane.meter, cost ?? 1, tx.limits.timeFor(rateLimit, lane.meter));
    lane.session = sticky && session ? session.id : null;
  }
  await fillLanes(tx, queue, keys);
}

/** The first tasks of the retry-elsewhere line that this worker may claim, locked; and whether there are others. */
async function readElsewhere(
  tx: Tx,
  queue: Queue,
  { worker, max }: ClaimRequest,
  before: number,
): Promise<{ allowed: LineRow[]; passed: boolean }> {
  const rows = await tx.all<ElsewhereRow>(ELSEWHERE, queue.id, BOUNDS.retryScan, before, inlineBytes(max));
  const allowed = rows.filter((row) => !(JSON.parse(row.avoid) as string[]).includes(worker));
  const passed = allowed.length < rows.length;
  if (allowed.length === 0) return { allowed: [], passed };
  const locked = await tx.all<{ task: number; place: string }>(
    LOCK_ELSEWHERE,
    queue.id,
    allowed.map((row) => row.rank),
    allowed.map((row) => row.pos),
    allowed.map((row) => row.failures),
    allowed.map((row) => row.special),
  );
  const places = new Map(locked.map((row) => [row.task, row.place]));
  const free = allowed.flatMap((row) => {
    const place = places.get(row.task);
    return place === undefined ? [] : [{ ...row, place }];
  });
  return { allowed: free, passed };
}

/** The tasks whose groups stick to this worker, and whether other groups stick to other workers. */
async function readSticky(
  tx: Tx,
  queue: Queue,
  { session, max }: ClaimRequest,
  room: number,
  before: number,
): Promise<{ allowed: LineRow[]; passed: boolean }> {
  const [others, allowed] = await allAnswered([
    tx.get(STICKY_TO_OTHERS, queue.id, before, session ?? null),
    session === undefined ? [] : tx.all<LineRow>(STICKY, queue.id, room, before, session, inlineBytes(max)),
  ]);
  return { allowed, passed: others !== undefined };
}

function inLine(a: LineRow, b: LineRow): number {
  return a.rank - b.rank || a.pos - b.pos;
}

/** What all claims of one call on one queue share. */
interface Terms {
  queue: Queue;
  worker: string;
  session: number | null;
  lease: number;
  deadline: number;
}

function termsOf(tx: Tx, request: ClaimRequest, session: SessionRow | null, queue: Queue): Terms {
  const lease = leaseOfClaim(request.lease, queue.policy, session);
  const deadline = deadlineOf(lease, queue.policy, session, tx.now);
  if (session === null) tx.batch.noteDue(tx.now + lease);
  return { queue, worker: request.worker, session: session && session.id, lease, deadline };
}

// The fences are consecutive, in the order of the line.
const INSERT_CLAIMS = `
  INSERT INTO dibs.claim (fence, started_at, lease, deadline, session, worker, queue, task, failures, special, cancelled, counted)
  SELECT nextval('dibs.fence'), coalesce($1::int8, ${THIS_MOMENT}), $2, $3, $4, $5, $6, task, failures, special, false, $10
  FROM unnest($7::int8[], $8::int2[], $9::bool[]) AS each (task, failures, special)
  RETURNING task, fence`;

/** Returns the fence of each task. */
async function insertClaims(tx: Tx, terms: Terms, rows: LineRow[]): Promise<Map<number, number>> {
  if (rows.length === 0) return new Map();
  const { lease, deadline, session, worker, queue } = terms;
  if (session === null) tx.floors.lowerTime("hand", deadline);
  const claims = await tx.take<{ task: number; fence: number }>(
    INSERT_CLAIMS,
    // A start that is counted in the window of a rate must be in that window.
    queue.limited ? tx.now : null,
    lease,
    deadline,
    session,
    worker,
    queue.id,
    rows.map((row) => row.task),
    rows.map((row) => row.failures),
    rows.map((row) => row.special),
    queue.policy.maxConcurrency !== null,
  );
  return new Map(claims.map((row) => [row.task, row.fence]));
}
