import { type AnswerSize, countFitting, sizeOfClaimed } from "../../../core/answer/answer-size.ts";
import { sessionGone } from "../../../core/task/lease.ts";
import { type Body, type ClaimedTask, rankOf } from "../../../core/task/task.ts";
import type { ClaimRequest } from "../../../engine/claim-request.ts";
import type { Op } from "../../../engine/engine.ts";
import type { Value } from "../connection/connection.ts";
import { HANDLER_STATE, type HandlerState } from "../flows/steps.ts";
import { returnToHead } from "../line/enter-line.ts";
import { aboveFloor, sinceFloor } from "../line/floors.ts";
import { unwatchTtl } from "../line/line.ts";
import { STATEMENT_BEGAN as NOW, THIS_MOMENT } from "../statements/clock.ts";
import { TASK_OF } from "../statements/look-up.ts";
import { HEARTBEAT, isFresh, newest, newestOf } from "../statements/newest.ts";
import type { SentAhead } from "../statements/statements.ts";
import { fromText, numbers } from "../statements/text.ts";
import { asKnown, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";
import { AT_ONCE, DATA_SIZE, readLarge } from "./claim-size.ts";
import { countClaimed, handOver } from "./hand-over.ts";

/**
 * The fast path of `claim`: one statement takes the heads of the lines of one queue or many. claim.ts executes it after
 * the header's answer, send-ahead.ts sends it together with the header.
 *
 * Without it, all claims on the general path, pick-up took 10.1 and 5.2 ms instead of 3.8 and 3.9, a worker of one task at
 * a time handled 390 to 420 tasks a second instead of 510 to 570, and a drain at concurrency 100 ran at 27 thousand instead
 * of 31 to 33. (Two interleaved rounds.)
 */

const OURS = newest("session", "$3", "(SELECT newest FROM calm)");
/** More queues than any claim has. */
const NO_QUEUE = 2_147_483_647;
/**
 * The number of the first queue that needs the general path: it has a retry-elsewhere line. The queues behind must wait
 * for it, because fences tell the order of a claim's tasks. Mostly no queue has such a line, and none is searched.
 * `$1` has more than one queue only if none of them has limits.
 */
const stop = (isHeld: string): string => `
      CASE ${isHeld} WHEN elsewhere.until IS NOT NULL THEN (
        SELECT min(n) FROM unnest($1::int4[]) WITH ORDINALITY AS wanted (queue, n)
        WHERE EXISTS (SELECT 1 FROM dibs.ready_elsewhere WHERE ready_elsewhere.queue = wanted.queue AND ${aboveFloor("wanted.queue", "ready_elsewhere")} OFFSET 0)) END`;

/**
 * Claims up to $2 tasks from each of the queues $1, and $10 from all of them, if nothing is due first ($11: everything
 * was dealt with). It also counts as the session's heartbeat, and claims nothing for a session that has ended. Until the
 * commit, no transaction can end the session.
 *
 * If the last heartbeat is fresh, the session's row is only locked: to write it for each claim costs more, and the next
 * heartbeat would wait for this commit.
 *
 * Rows that other transactions have locked are skipped. Fences are given out in the order of the queues and lines.
 *
 * $5 and $6 are the longest lease and the shortest timeout of the queues, $12 and $13 those of each if they differ.
 *
 * It uses the current time, because it may be sent ahead (send-ahead.ts). For that, $8 and $9 are the version of the
 * queues that this connection knows: if the store has another one, the statement claims nothing.
 *
 * To start and end a plan costs as much as to claim one task, so every part counts. Columns that few tasks have come as
 * one JSON value: each column costs about as much as a part of the work on the task.
 */
const buildClaimHeads = ({ due = "", isHeld = "" } = {}): string => `
  WITH calm AS MATERIALIZED (
    SELECT ($11::bool OR (NOT EXISTS (
        SELECT 1 FROM dibs.session WHERE heartbeat_at + lease <= ${NOW} AND ${sinceFloor("session", "heartbeat_at + lease")})
      AND NOT EXISTS (
        SELECT 1 FROM dibs.claim WHERE session IS NULL AND deadline <= ${NOW} AND ${sinceFloor("hand", "deadline")})
      AND NOT EXISTS (
        SELECT 1 FROM dibs.scheduled WHERE due <= ${NOW} AND ${sinceFloor("scheduled", "due")} ORDER BY due OFFSET 0)
      AND NOT EXISTS (SELECT 1 FROM dibs.ttl WHERE expires_at <= ${NOW} AND ${sinceFloor("ttl", "expires_at")})
      AND (elsewhere.until > ${NOW}) IS NOT FALSE ${due}))
      AND ($8::int8 IS NULL OR ${asKnown("$8", "$9")}) AS yes,
      $3::int8 IS NULL OR EXISTS (
        SELECT 1 FROM dibs.session WHERE ${newest("session", "$3", "own.newest")} AND heartbeat_at + lease > ${NOW}) AS lives,
      ${stop(isHeld)} AS stop, own.newest
    FROM (SELECT (
      SELECT until FROM dibs.ready_elsewhere WHERE ${sinceFloor("ready_elsewhere", "until")} ORDER BY until, task LIMIT 1) AS until OFFSET 0) AS elsewhere,
      (SELECT ${newestOf("session", "$3")} AS newest OFFSET 0) AS own
  ), head AS MATERIALIZED (
    SELECT found.place, found.task, found.failures, found.special, wanted.queue,
      coalesce(wanted.lease, $5::int8) AS lease, coalesce(wanted.timeout, $6::int8) AS timeout
    FROM unnest($1::int4[], $12::int8[], $13::int8[]) WITH ORDINALITY AS wanted (queue, lease, timeout, n)
    CROSS JOIN LATERAL (
      SELECT ctid AS place, task, failures, special FROM dibs.ready
      WHERE ready.queue = wanted.queue AND ${aboveFloor("wanted.queue")}
      ORDER BY rank, pos LIMIT $2 FOR UPDATE SKIP LOCKED) AS found
    WHERE wanted.n < (SELECT CASE WHEN yes AND lives THEN coalesce(stop, ${NO_QUEUE}) ELSE 0 END FROM calm)
    LIMIT $10
  ), fresh AS MATERIALIZED (
    SELECT lease FROM dibs.session
    WHERE ${OURS} AND ${isFresh(NOW, "$7")} AND (mixed OR lease >= $5)
      AND overdue_at <= ${NOW} + $6
      AND heartbeat_at + lease > ${NOW} AND EXISTS (SELECT 1 FROM head)
    FOR KEY SHARE
  ), alive AS MATERIALIZED (
    UPDATE dibs.session
    SET heartbeat_at = greatest(heartbeat_at, ${NOW}), mixed = mixed OR lease < $5,
      overdue_at = least(overdue_at, ${NOW} + $6), n = n + 1
    WHERE ${OURS} AND heartbeat_at + lease > ${NOW} AND EXISTS (SELECT 1 FROM head) AND NOT EXISTS (SELECT 1 FROM fresh)
    RETURNING lease
  ), terms AS MATERIALIZED (
    SELECT lease, ${NOW} AS now FROM (
      SELECT lease FROM alive UNION ALL SELECT lease FROM fresh UNION ALL SELECT 0 WHERE $3::int8 IS NULL) AS session
  ), gone AS (
    DELETE FROM dibs.ready WHERE ctid = ANY (ARRAY (SELECT head.place FROM head, terms))
  ), held AS (
    INSERT INTO dibs.claim
      (fence, started_at, lease, deadline, session, worker, queue, task, failures, special, cancelled)
    SELECT nextval('dibs.fence'), (SELECT ${THIS_MOMENT}), greatest(terms.lease, head.lease),
      terms.now + CASE WHEN $3::int8 IS NULL THEN head.lease ELSE head.timeout END,
      $3, $4, head.queue, head.task, head.failures, head.special, false
    FROM terms, head
    RETURNING queue, task, fence, failures, special)
  SELECT CASE WHEN held.fence IS NULL THEN CASE WHEN NOT calm.lives THEN 'gone' WHEN calm.yes THEN 'calm' ELSE 'busy' END END,
    calm.stop, held.queue, held.fence, coalesce(held.failures, (SELECT count(*)::int4 FROM head)),
    task.seq, task.created_at, task.priority,
    CASE WHEN octet_length(task.data) <= ${AT_ONCE("$10")} THEN task.data END,
    CASE WHEN (octet_length(task.data) <= ${AT_ONCE("$10")}) IS NOT TRUE OR coalesce(task.expires_at, task.max_attempts) IS NOT NULL
      OR coalesce(task.group_key, task.content_type, task.headers) IS NOT NULL OR held.special
      OR task.cost IS NOT NULL OR task.urgent
    THEN json_build_array(task.expires_at, task.max_attempts, task.group_key, task.content_type, task.headers,
      CASE WHEN ${DATA_SIZE} <= ${AT_ONCE("$10")} THEN encode(task.bytes, 'base64') END, ${HANDLER_STATE("held.special", "task.seq")}, task.cost, task.urgent,
      CASE WHEN ${DATA_SIZE} > ${AT_ONCE("$10")} THEN ${DATA_SIZE} END)::text END
  FROM calm LEFT JOIN (held CROSS JOIN ${TASK_OF("held")}) ON true`;
const CLAIM_HEADS = buildClaimHeads();
/** While any queue has limits, gates and lanes can be due too, and a queue may have got a hold since the header. */
const CLAIM_HEADS_WITH_LIMITS = buildClaimHeads({
  due: `
      AND NOT EXISTS (SELECT 1 FROM dibs.lane WHERE wake_at <= ${NOW} AND ${sinceFloor("lane", "wake_at")})
      AND NOT EXISTS (SELECT 1 FROM dibs.gate WHERE wake_at <= ${NOW} AND ${sinceFloor("gate", "wake_at")})`,
  isHeld: `WHEN EXISTS (SELECT 1 FROM dibs.gate WHERE ${newest("gate", "($1::int4[])[1]")} AND held_until > ${NOW}) THEN 1`,
});

type Row = [
  /** Why nothing was claimed. */
  why: "calm" | "busy" | "gone" | null,
  stop: number | null,
  queue: number,
  fence: number,
  /** If nothing was claimed: the number of tasks found before the session proved to have ended. */
  failures: number,
  seq: number,
  createdAt: number,
  priority: number,
  data: string | null,
  special: string | null,
];

type Special = [
  expiresAt: number | null,
  maxAttempts: number | null,
  groupKey: string | null,
  contentType: string | null,
  headers: string | null,
  bytes: string | null,
  left: HandlerState | null,
  cost: number | null,
  urgent: boolean | null,
  /** The size of a large payload, which has not been read. */
  large: number | null,
];

const PLAIN: Special = [null, null, null, null, null, null, null, null, null, null];

/** Queues to claim from, and how many tasks of each and of all. If there are several, none has limits. */
export interface Heads {
  queues: readonly Queue[];
  share: number;
  room: number;
  /** The version of the queues, if it was not compared with the store yet. */
  known?: { revision: number; epoch: number };
}

export interface HeadsOutcome {
  tasks: ClaimedTask[];
  /** The queues of these tasks. */
  from: Queue[];
  /** Those that gave their whole share. */
  generous: Queue[];
  /** How many of the queues are done. */
  done: number;
  /** The next queue takes the general path. */
  isStopped: boolean;
  /** How many tasks exceeded the answer size, by queue. */
  left: Map<Queue, number>;
}

function statementFor(
  tx: Tx,
  { worker, session, lease }: ClaimRequest,
  { queues, share, room, known }: Heads,
  isSwept: boolean,
): [sql: string, ...values: Value[]] {
  const leases = queues.map(({ policy }) => lease ?? policy.lease);
  const timeouts = queues.map(({ policy }) => policy.timeout);
  return [
    tx.queues.hasLimits ? CLAIM_HEADS_WITH_LIMITS : CLAIM_HEADS,
    numbers(queues.map(({ id }) => id)),
    Math.min(share, room),
    session ?? null,
    worker,
    Math.max(...leases),
    Math.min(...timeouts),
    HEARTBEAT.fresh,
    known?.revision ?? null,
    known?.epoch ?? null,
    room,
    isSwept,
    unlessSame(leases),
    unlessSame(timeouts),
  ];
}

function unlessSame(values: readonly number[]): string | null {
  return values.every((value) => value === values[0]) ? null : numbers(values);
}

/** Sends the statement before the claim's turn; claimHeads finds the answer. */
export function sendHeads(tx: Tx, op: Op<"claim">, heads: Heads): void {
  tx.sendAhead(op, heads, ...statementFor(tx, op, heads, false));
}

/** Claims from these queues, or finds out that something must be done first. */
export async function claimHeads(
  tx: Tx,
  request: ClaimRequest,
  heads: Heads,
  { size, isSwept }: { size: AnswerSize; isSwept: boolean },
): Promise<HeadsOutcome | "busy"> {
  const sent = tx.sentAhead.get(request) as SentAhead<Heads, Row> | undefined;
  tx.sentAhead.delete(request);
  if (sent) {
    const taken = takenFrom(tx, request, sent.what, await sent.answer);
    // An earlier claim has returned tasks to the front of a line: this one returns what it took, and is sent again.
    const isCut = sent.what.queues.some((queue) => tx.batch.cutLines.has(queue));
    if (isCut && taken !== "busy") leave(tx, taken.tasks);
    // If it was busy, it may succeed now: the header has told what changed, or an earlier claim has swept.
    else if (taken !== "busy") return keep(tx, request, sent.what, taken, size);
  }
  const rows = await tx.rows<Row>(...statementFor(tx, request, heads, isSwept));
  const taken = takenFrom(tx, request, heads, rows);
  return taken === "busy" ? taken : keep(tx, request, heads, taken, size);
}

interface TakenRow {
  queue: Queue;
  row: Row;
  special: Special;
}

interface TakenRows extends Pick<HeadsOutcome, "done" | "isStopped"> {
  tasks: TakenRow[];
}

/** The claimed tasks in the order of the lines. */
function takenFrom(tx: Tx, { session }: ClaimRequest, { queues }: Heads, found: Row[]): TakenRows | "busy" {
  const rows = inLine(found);
  const [why, stop, , , left] = rows[0]!;
  if (why === "busy") return why;
  if (why === "gone" || (why === "calm" && left > 0)) {
    if (left > 0) noteSkipped(tx, queues, left);
    throw sessionGone(session!);
  }
  const tasks = (why === null ? rows : []).map((row) => {
    const special = row[9] === null ? PLAIN : (JSON.parse(row[9]) as Special);
    return { queue: tx.queues.of(row[2]), row, special };
  });
  return { tasks, done: stop === null ? queues.length : stop - 1, isStopped: stop !== null };
}

/** Fences tell the order. Most plans return the rows in it. */
function inLine(rows: Row[]): Row[] {
  const isInLine = rows.every((row, i) => i === 0 || row[3] > rows[i - 1]![3]);
  return isInLine ? rows : rows.toSorted((a, b) => a[3] - b[3]);
}

/** Tasks of these queues were locked, so other claims have skipped them. */
function noteSkipped(tx: Tx, queues: readonly Queue[], count: number): void {
  tx.noteWrite();
  for (const queue of queues) tx.batch.hintReady(queue, count);
}

/** Returns tasks to their lines. */
function leave(tx: Tx, tasks: readonly TakenRow[]): Map<Queue, number> {
  const left = new Map<Queue, number>();
  for (const [queue, rows] of Map.groupBy(tasks, (task) => task.queue)) {
    tx.noteWrite();
    tx.batch.cutLines.add(queue);
    returnToHead(
      tx,
      queue,
      rows.map(({ row }) => row[5]),
    );
    left.set(queue, rows.length);
  }
  return left;
}

/** Keeps as many of the tasks as the answer has room for. */
async function keep(
  tx: Tx,
  { worker, session }: ClaimRequest,
  { share }: Heads,
  { tasks: all, ...progress }: TakenRows,
  size: AnswerSize,
): Promise<HeadsOutcome> {
  const fit = countFitting(all, sizeOf, size);
  const left = leave(tx, all.slice(fit));
  const kept = all.slice(0, fit);
  const outcome: HeadsOutcome = { tasks: [], from: [], generous: [], left, ...progress };
  if (kept.length === 0) return outcome;
  tx.noteWrite();
  if (session !== undefined) tx.batch.workers.clear();
  // The header's time is before the start of the claim, and so before its deadline.
  else tx.floors.lowerTime("hand", tx.now);
  const large = kept.filter(({ special }) => special[9] !== null).map(({ row }) => row[5]);
  const payloads = await readLarge(tx, large);
  for (const [queue, rows] of Map.groupBy(kept, (task) => task.queue)) {
    const tasks = rows.map((each) => toWorker(tx, worker, each, payloads));
    tx.counters.count(queue, "ready", -tasks.length);
    countClaimed(tx, queue, tasks);
    outcome.from.push(queue);
    if (tasks.length === share) outcome.generous.push(queue);
    for (const task of tasks) outcome.tasks.push(task);
  }
  for (const each of kept) size.add(sizeOf(each));
  return outcome;
}

/** Its share of the answer size. */
function sizeOf({ row, special }: TakenRow): number {
  const data = row[8];
  const [, , , , headers, bytes] = special;
  return sizeOfClaimed(data?.length ?? special[9] ?? bytes!.length, headers?.length ?? 0);
}

function toWorker(
  tx: Tx,
  worker: string,
  { queue, row, special }: TakenRow,
  payloads: ReadonlyMap<number, Body>,
): ClaimedTask {
  const [, , , fence, failures, seq, createdAt, priority, data] = row;
  const [expiresAt, maxAttempts, groupKey, contentType, headers, bytes, left, cost, urgent] = special;
  unwatchTtl(tx, seq, expiresAt);
  return handOver(tx, queue, worker, {
    seq,
    fence,
    failures,
    rank: rankOf({ priority, urgent: urgent === true }),
    priority,
    createdAt,
    data: payloads.get(seq) ?? bodyFrom(data, bytes),
    contentType,
    headers,
    maxAttempts,
    groupKey,
    cost,
    left,
  });
}

function bodyFrom(text: string | null, base64: string | null): Body {
  return text === null ? new Uint8Array(Buffer.from(base64!, "base64")) : fromText(text);
}
