import { sessionGone } from "../../../core/task/lease.ts";
import type { ClaimRequest } from "../../../engine/claim-request.ts";
import { STATEMENT_BEGAN as NOW, THIS_MOMENT } from "../statements/clock.ts";
import { RESULT, type Row, TASK } from "./claim-fast.ts";
import type { QueuesWithTasks } from "./claim-many.ts";
import { aboveFloor } from "../line/floors.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { isFresh, newest, HEARTBEAT } from "../statements/newest.ts";
import { numbers } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * The fast path of `claim` for many queues: one statement takes the heads of their lines. claim.ts calls it after a
 * sweep, so nothing is due, and for queues without limits and without a retry-elsewhere line. A statement for each queue
 * has a hundred plan nodes, which the server sets up every time: a worker of 10,000 queues handled 1,400 tasks a second.
 */

const OURS = newest("session", "$3");
const IS_OPEN = `AND NOT EXISTS (
        SELECT 1 FROM dibs.gate WHERE ${newest("gate", "wanted.queue")} AND held_until > ${NOW})`;

/** As in claim-fast.ts. `isOpen`: a queue may have got a hold since the header. */
const buildClaimHeads = (isOpen: string): string => `
  WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest($1::int4[], $5::int8[], $6::int8[]) AS each (queue, lease, timeout)
  ), calm AS MATERIALIZED (
    SELECT $3::int8 IS NULL OR EXISTS (SELECT 1 FROM dibs.session WHERE ${OURS} AND heartbeat_at + lease > ${NOW}) AS lives
  ), head AS MATERIALIZED (
    SELECT found.place, wanted.queue, wanted.lease, wanted.timeout, found.task, found.failures, found.special
    FROM wanted CROSS JOIN LATERAL (
      SELECT ctid AS place, task, failures, special FROM dibs.ready
      WHERE ready.queue = wanted.queue AND ${aboveFloor("wanted.queue")} AND (SELECT lives FROM calm) ${isOpen}
      ORDER BY rank, pos LIMIT $2 FOR UPDATE SKIP LOCKED) AS found
  ), most AS MATERIALIZED (
    SELECT max(lease) AS lease, min(timeout) AS timeout FROM head HAVING count(*) > 0
  ), fresh AS MATERIALIZED (
    SELECT lease FROM dibs.session
    WHERE ${OURS} AND ${isFresh(NOW, "$7")} AND lease >= (SELECT lease FROM most)
      AND overdue_at <= ${NOW} + (SELECT timeout FROM most)
      AND heartbeat_at + lease > ${NOW}
    FOR KEY SHARE
  ), alive AS MATERIALIZED (
    UPDATE dibs.session
    SET heartbeat_at = greatest(heartbeat_at, ${NOW}), mixed = mixed OR session.lease < (SELECT lease FROM most),
      overdue_at = least(overdue_at, ${NOW} + (SELECT timeout FROM most)), n = n + 1
    WHERE ${OURS} AND heartbeat_at + lease > ${NOW} AND EXISTS (SELECT 1 FROM head) AND NOT EXISTS (SELECT 1 FROM fresh)
    RETURNING lease
  ), terms AS MATERIALIZED (
    SELECT lease FROM alive UNION ALL SELECT lease FROM fresh UNION ALL SELECT 0 WHERE $3::int8 IS NULL
  ), gone AS (
    DELETE FROM dibs.ready WHERE ctid = ANY (ARRAY (SELECT head.place FROM head, terms))
  ), held AS (
    INSERT INTO dibs.claim
      (fence, started_at, lease, deadline, session, worker, queue, task, failures, special, cancelled)
    SELECT nextval('dibs.fence'), (SELECT ${THIS_MOMENT}), greatest(terms.lease, head.lease),
      ${NOW} + CASE WHEN $3::int8 IS NULL THEN head.lease ELSE head.timeout END,
      $3, $4, head.queue, head.task, head.failures, head.special, false
    FROM terms, head
    RETURNING queue, task, fence, failures, special)
  ${RESULT("CASE WHEN calm.lives AND (EXISTS (SELECT 1 FROM terms) OR NOT EXISTS (SELECT 1 FROM head)) THEN 'calm' ELSE 'gone' END", "$8")}, held.queue
  FROM calm LEFT JOIN (held CROSS JOIN ${TASK}) ON true`;
const CLAIM_HEADS = buildClaimHeads("");
const CLAIM_HEADS_WITH_LIMITS = buildClaimHeads(IS_OPEN);

type HeadsRow = [...Row, queue: number];

/**
 * Claims from the first of these queues, as many as certainly get their whole share, and returns how many these are;
 * `claimHead` finds the tasks of each. It stops at a queue that takes the general path: what is claimed behind it would
 * get lower fences.
 */
export async function takeHeads(
  tx: Tx,
  request: ClaimRequest,
  { queues, retrying }: QueuesWithTasks,
  { share, room }: { share: number; room: number },
): Promise<number> {
  const special = queues.findIndex((queue) => queue.limited || retrying.has(queue));
  const fitting = Math.floor(room / share);
  const heads = queues.slice(0, special === -1 ? fitting : Math.min(special, fitting));
  if (heads.length < 2) return 0;
  const rows = await tx.rows<HeadsRow>(
    tx.queues.hasLimits ? CLAIM_HEADS_WITH_LIMITS : CLAIM_HEADS,
    ...[numbers(heads.map(({ id }) => id)), share, request.session ?? null, request.worker],
    numbers(heads.map(({ policy }) => request.lease ?? policy.lease)),
    numbers(heads.map(({ policy }) => policy.timeout)),
    ...[HEARTBEAT.fresh, request.max],
  );
  const [why, , left] = rows[0]!;
  if (why === "gone") {
    // They were locked, so other claims have skipped them.
    if (left > 0) hintAll(tx, heads, share);
    throw sessionGone(request.session!);
  }
  if (why === null) tx.noteWrite();
  const byQueue = Map.groupBy(why === null ? rows : [], (row) => row[8]);
  for (const queue of heads) tx.foundAhead(queue, queue, byQueue.get(queue.id) ?? [NONE]);
  return heads.length;
}

const NONE: Row = ["calm", 0, 0, 0, 0, 0, null, null];

function hintAll(tx: Tx, queues: readonly Queue[], count: number): void {
  tx.noteWrite();
  for (const queue of queues) tx.batch.hintReady(queue, count);
}
