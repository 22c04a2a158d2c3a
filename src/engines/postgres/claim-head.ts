import { type ClaimedTask, type Headers, JSON_TYPE } from "../../core/task.ts";
import type { ClaimRequest } from "../../engine/engine.ts";
import { unwatchTtl } from "./line.ts";
import { fromText } from "./text.ts";
import { type Queue, STARTED, type Tx } from "./tx.ts";

/**
 * The usual claim in one statement: takes the head of the line, where nothing that time brings is to be done first
 * and no retried task waits beside the line. It also gives the session's sign of life, and takes nothing for one that
 * is gone: from that update to the commit nobody ends the session.
 *
 * A session that gave a sign of life a moment ago is only locked: each new version of its row would be walked over by
 * all that follow, for as long as somebody's transaction stays open.
 *
 * What other transactions are about to claim is passed over. Fences follow each other in the order of the line.
 */
const HOLD_HEAD = `
  WITH calm AS MATERIALIZED (
    SELECT NOT EXISTS (SELECT 1 FROM dibs.session WHERE beat_at + lease <= $1)
      AND NOT EXISTS (SELECT 1 FROM dibs.claim WHERE session IS NULL AND deadline <= $1)
      AND NOT EXISTS (SELECT 1 FROM dibs.scheduled WHERE due <= $2)
      AND NOT EXISTS (SELECT 1 FROM dibs.kept WHERE until <= $2)
      AND NOT EXISTS (SELECT 1 FROM dibs.ttl WHERE expires_at <= $2)
      AND NOT EXISTS (SELECT 1 FROM dibs.kept WHERE queue = $3) AS yes,
      $5::int8 IS NULL OR EXISTS (SELECT 1 FROM dibs.session WHERE id = $5 AND beat_at + lease > $1) AS lives
  ), head AS MATERIALIZED (
    SELECT ctid, task, failures, special FROM dibs.ready
    WHERE queue = $3 AND (rank, pos) >= ($10::int2, $11::int8) AND (SELECT yes AND lives FROM calm)
    ORDER BY rank, pos LIMIT $4 FOR UPDATE SKIP LOCKED
  ), fresh AS MATERIALIZED (
    SELECT lease FROM dibs.session
    WHERE id = $5 AND beat_at > $1 - least($9::int8, lease / 10) AND lease >= $7 AND overdue_at <= $1 + $8::int8
      AND beat_at + lease > $1 AND EXISTS (SELECT 1 FROM head)
    FOR SHARE
  ), alive AS MATERIALIZED (
    UPDATE dibs.session
    SET beat_at = greatest(beat_at, $1), mixed = mixed OR lease < $7, overdue_at = least(overdue_at, $1 + $8::int8)
    WHERE id = $5 AND beat_at + lease > $1 AND EXISTS (SELECT 1 FROM head) AND NOT EXISTS (SELECT 1 FROM fresh)
    RETURNING greatest(lease, $7) AS lease, $1 + $8::int8 AS deadline
  ), terms AS MATERIALIZED (
    SELECT lease, deadline FROM alive
    UNION ALL SELECT lease, $1 + $8::int8 FROM fresh
    UNION ALL SELECT $7, $1 + $7 WHERE $5::int8 IS NULL
  ), gone AS (
    DELETE FROM dibs.ready WHERE ctid = ANY (ARRAY (SELECT head.ctid FROM head, terms))
  ), held AS (
    INSERT INTO dibs.claim
      (fence, started_at, lease, deadline, session, worker, queue, task, failures, special, cancelled)
    SELECT nextval('dibs.fence'), ${STARTED("$12")}, lease, deadline, $5, $6, $3, task, failures, special, false FROM terms, head
    RETURNING task, fence, failures)
  SELECT CASE WHEN held.fence IS NULL THEN CASE WHEN NOT calm.lives THEN 'gone' WHEN calm.yes THEN 'calm' ELSE 'busy' END END,
    held.fence, held.failures, task.seq, task.created_at, task.priority, task.data,
    CASE WHEN task.data IS NULL OR coalesce(task.pos, task.expires_at, task.max_attempts) IS NOT NULL
      OR coalesce(task.group_key, task.content_type, task.headers) IS NOT NULL
    THEN json_build_array(task.pos, task.expires_at, task.max_attempts, task.group_key, task.content_type, task.headers,
      encode(task.bytes, 'base64'))::text END
  FROM calm LEFT JOIN (held JOIN dibs.task ON task.seq = held.task) ON true`;

/** Each column that is read costs as much as a part of the work on the task: what few tasks have comes as one. */
type Row = [
  /** Of a claim that took nothing. */
  why: "calm" | "busy" | "gone" | null,
  fence: number,
  failures: number,
  seq: number,
  createdAt: number,
  priority: number,
  data: string | null,
  special: string | null,
];

type Special = [
  pos: number | null,
  expiresAt: number | null,
  maxAttempts: number | null,
  groupKey: string | null,
  contentType: string | null,
  headers: string | null,
  bytes: string | null,
];

const PLAIN: Special = [null, null, null, null, null, null, null];

function specialOf([, , , , , , , special]: Row): Special {
  return special === null ? PLAIN : (JSON.parse(special) as Special);
}

export type HeadOutcome =
  | { tasks: ClaimedTask[] }
  /** Something is to be done first: nothing was taken. */
  | "busy"
  /** The session has ended: nothing was taken. */
  | "gone";

export async function claimHead(
  tx: Tx,
  request: ClaimRequest,
  queue: Queue,
  room: number,
): Promise<HeadOutcome> {
  const { worker, session = null } = request;
  const floor = tx.floors.of(queue.name);
  const { policy } = queue;
  const rows = await tx.rows<Row>(
    HOLD_HEAD,
    tx.awake,
    tx.now,
    queue.id,
    room,
    session,
    worker,
    request.lease ?? policy.lease,
    policy.timeout,
    tx.moment,
    floor.rank,
    floor.pos,
    tx.startedAt,
  );
  const [first] = rows as [Row, ...Row[]];
  const [why] = first;
  if (why === "gone" || why === "busy") return why;
  const head = why === "calm" ? undefined : { rank: 0 - first[5], pos: specialOf(first)[0] ?? first[3] };
  tx.floors.found(queue.name, floor, head, why === "calm" || rows.length < room);
  if (why === "calm") return { tasks: [] };
  tx.changed = true;
  if (session !== null) tx.serving.clear();
  const tasks = rows.map((row) => handOver(tx, queue, worker, row));
  tx.count(queue, "ready", -tasks.length);
  tx.count(queue, "claimed", tasks.length);
  const flow = tx.flow(queue);
  flow.claimed += tasks.length;
  for (const { createdAt } of tasks) flow.waitMs += tx.now - createdAt;
  return { tasks };
}

/** What the worker gets. */
function handOver(tx: Tx, queue: Queue, worker: string, row: Row): ClaimedTask {
  const [, fence, failures, seq, createdAt, priority, data] = row;
  const [, expiresAt, maxAttempts, groupKey, contentType, headers, bytes] = specialOf(row);
  const attempt = failures + 1;
  const id = tx.id(createdAt, seq);
  unwatchTtl(tx, seq, expiresAt);
  if (tx.listeners > 0) {
    tx.announce({ type: "task.claimed", at: tx.now, queue: queue.name, taskId: id, worker, attempt });
  }
  return {
    id,
    fence,
    queue: queue.name,
    data: data === null ? new Uint8Array(Buffer.from(bytes!, "base64")) : fromText(data),
    contentType: contentType ?? JSON_TYPE,
    headers: headers === null ? {} : (JSON.parse(headers) as Headers),
    attempt,
    maxAttempts: maxAttempts ?? queue.policy.maxAttempts,
    priority,
    groupKey,
    createdAt,
  };
}
