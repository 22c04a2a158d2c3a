import { keyExpiresAt } from "../../../core/task/idempotency.ts";
import { chunks, sized } from "../statements/chunks.ts";
import type { LaneName } from "../limits/lanes.ts";
import { enterLines } from "./enter-line.ts";
import { freeGroup } from "./line.ts";
import { freeLanes } from "../limits/move-lanes.ts";
import { HEAD_ONLY } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * The consequences of many ends in bulk: frees groups, and starts the time after which keys expire. settle-together.ts
 * calls it. `reachEnd` in line.ts does the same for one task.
 */

type NextRow = [
  queue: number,
  groupKey: string,
  pos: number | null,
  task: number | null,
  rank: number | null,
  failures: number | null,
];

const NEXT_OF_GROUPS = sized(
  `SELECT task.queue, task.group_key, next.pos, next.task, next.rank, next.failures
   FROM (VALUES `,
  () => `(?)`,
  `) CROSS JOIN task ON task.seq = column1
   LEFT JOIN waiting AS next ON next.queue = task.queue AND next.group_key = task.group_key AND next.pos = (
     SELECT min(pos) FROM waiting WHERE queue = task.queue AND group_key = task.group_key)`,
);
const DELETE_WAITING = sized(
  `DELETE FROM waiting WHERE (queue, group_key, pos) IN (VALUES `,
  () => `(?, ?, ?)`,
  `)`,
);
const FREE_LANES = sized(`DELETE FROM lane WHERE (queue, group_key) IN (VALUES `, () => `(?, ?)`, `)`);

const GROUPS = sized(
  `SELECT seq, queue, group_key FROM (VALUES `,
  () => `(?)`,
  `) CROSS JOIN task ON task.seq = column1`,
);

/** The heads of these groups have ended, in this order. */
export function freeGroups(tx: Tx, ended: readonly { seq: number; queue: number }[]): void {
  const [heads, others]: [number[], number[]] = [[], []];
  for (const { seq, queue } of ended) (tx.queues.of(queue).lanes === HEAD_ONLY ? heads : others).push(seq);
  if (heads.length > 0) freeHeads(tx, heads);
  if (others.length === 0) return;
  const groups = new Map<number, LaneName>();
  for (const chunk of chunks(others)) {
    for (const [seq, queue, key] of tx.rows<[number, number, string]>(GROUPS(chunk.length), ...chunk))
      groups.set(seq, { queue: tx.queues.of(queue), key });
  }
  freeLanes(
    tx,
    others.map((seq) => groups.get(seq)!),
  );
}

/** Each is of another group: only the head of a group can be claimed. */
function freeHeads(tx: Tx, seqs: readonly number[]): void {
  const rows = [...chunks(seqs)].flatMap((chunk) => tx.rows<NextRow>(NEXT_OF_GROUPS(chunk.length), ...chunk));
  for (const chunk of chunks(rows.filter(([, , pos]) => pos === null))) {
    tx.runMany(
      FREE_LANES(chunk.length),
      chunk.flatMap(([queue, groupKey]) => [queue, groupKey]),
      {},
    );
  }
  // A task that has failed may have to avoid workers: it stepped aside, or was imported.
  const failed = rows.filter(([, , , , , failures]) => failures !== null && failures > 0);
  for (const [queue, groupKey] of failed) freeGroup(tx, tx.queues.of(queue), groupKey);
  for (const chunk of chunks(rows.filter(([, , , , , failures]) => failures === 0))) {
    tx.runMany(
      DELETE_WAITING(chunk.length),
      chunk.flatMap(([queue, groupKey, pos]) => [queue, groupKey, pos]),
      {},
    );
    const promoted = chunk.map(([queue, , pos, task, rank]) => {
      return { queue: tx.queues.of(queue), rank: rank!, pos: pos!, task: task!, failures: 0, session: null };
    });
    for (const { queue } of promoted) tx.counters.count(queue, "waiting", -1);
    enterLines(tx, promoted);
  }
}

const END_KEYS = sized(
  `UPDATE idempotency SET forget_at = :forget, state = 'done'
   WHERE (queue, key, task) IN (
     SELECT task.queue, task.idempotency_key, task.seq FROM (VALUES `,
  () => `(?)`,
  `) CROSS JOIN task ON task.seq = column1)`,
);

/** Tasks with an idempotency key have succeeded: the time after which the keys expire starts. */
export function startKeyWindows(tx: Tx, seqs: readonly number[]): void {
  for (const chunk of chunks(seqs))
    tx.runMany(END_KEYS(chunk.length), chunk, { forget: keyExpiresAt(tx.now) });
}
