import { KEY_AFTER_END } from "../../../core/task/idempotency.ts";
import { THIS_MOMENT } from "../statements/clock.ts";
import { freeGroups } from "../line/free-groups.ts";
import type { Lane } from "../limits/lanes.ts";
import type { Value } from "../connection/connection.ts";
import { lookUp, rowsBy, TASK_OF, withPlaces } from "../statements/look-up.ts";
import { DELETE_ALL_STEPS } from "../flows/steps.ts";
import { numbers } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * Acks in bulk of tasks that have a group, a key or steps. settle-together.ts calls it for the tasks that its own
 * statement did not settle.
 *
 * A drained task with a group takes 63 µs of the client's CPU and 65 of the server's. If each ack takes the general path,
 * it takes 560 and 510. (Medians of interleaved rounds on a busy machine.)
 */

const SUCCESSES = withPlaces(
  "claim",
  `unnest($1::int8[], $2::int8[], $3::text[], $4::bytea[]) AS success (task, fence, result, bytes)`,
  `claim.task = success.task AND claim.fence = success.fence`,
);

/**
 * The beginning of a statement that ends the claims of successes, found by task and fence, if `where` holds for them. Its
 * CTE `settled` has the claims that it ended. Verdicts and tasks of verified queues are not settled this way. The
 * statement itself reads which queues these are, because it may be sent ahead.
 *
 * `hasResults`: a success has a result. Only then is each claim joined with its result, which takes a fifth longer.
 */
export const endClaims = (where: string, { hasResults }: { hasResults: boolean }): string => {
  const [which, result] = hasResults
    ? [`USING ${SUCCESSES} AS success WHERE claim.ctid = success.place`, `success.result, success.bytes`]
    : [
        `WHERE ctid = ANY (ARRAY (SELECT place FROM ${SUCCESSES} AS success))`,
        `NULL AS result, NULL::bytea AS bytes`,
      ];
  return `
  WITH moment AS MATERIALIZED (SELECT ${THIS_MOMENT} AS now), settled AS (
    DELETE FROM dibs.claim ${which} AND NOT claim.cancelled AND ${where}
      AND claim.queue <> ALL (ARRAY (SELECT id FROM dibs.queue WHERE in_verification))
    RETURNING claim.task, claim.queue, claim.started_at, claim.failures, claim.fence, claim.worker, ${result}
  ), done AS (
    INSERT INTO dibs.ended (task, queue, state, ended_at, started_at, attempt, fence, worker, result, result_bytes)
    SELECT task, queue, 'done', (SELECT now FROM moment), started_at, failures + 1, fence, worker, result, bytes FROM settled)`;
};

// Tasks with a group, a key or steps. Not tasks of runs, whose success adds the next stage; nor children, whose success
// may wake their parent; nor tasks of queues with limits ($5), which count each task.
const IS_SPECIAL = `claim.special AND claim.queue <> ALL ($5::int4[])
      AND NOT EXISTS ${rowsBy("run_part", { task: "claim.task" }, { columns: "1" })}
      AND NOT EXISTS ${rowsBy("child", { task: "claim.task" }, { columns: "1" })}`;
const ITS_KEY = `idempotency.queue = task.queue AND idempotency.key = task.idempotency_key`;
/** The rows of the tasks' keys. They are locked in the order that all transactions use. */
const KEYS = (tasks: string): string => `
    SELECT place FROM (
      SELECT task.* FROM ${tasks} CROSS JOIN ${TASK_OF("settled", "seq, queue, idempotency_key")}
      ORDER BY task.queue, task.idempotency_key) AS task
    CROSS JOIN ${lookUp("idempotency", `${ITS_KEY} AND idempotency.task = task.seq`, { columns: "ctid AS place", lock: "FOR UPDATE NOWAIT" })}`;
const KEYS_OF_TASKS = KEYS(`unnest($1::int8[]) AS settled (task)`);
const END_SPECIAL = `${endClaims(IS_SPECIAL, { hasResults: true })}, keyed AS (
    UPDATE dibs.idempotency SET forget_at = (SELECT now FROM moment) + $6::int8, state = 'done'
    WHERE ctid = ANY (ARRAY (${KEYS("settled")})))
  SELECT settled.task, settled.queue, (SELECT now FROM moment) - settled.started_at, task.group_key,
    settled.worker, settled.failures + 1
  FROM settled CROSS JOIN ${TASK_OF("settled")}`;

type Row = [
  task: number,
  queue: number,
  serviceMs: number,
  groupKey: string | null,
  worker: string,
  attempt: number,
];

/** A success that was settled, as its event describes it. */
export interface Settled {
  task: number;
  queue: number;
  worker: string;
  attempt: number;
}

/**
 * `columns`: the successes' task numbers, fences, results and binary results. Returns the tasks that it settled. Each of
 * the others needs the general path, which also finds out whether its claim is lost.
 */
export async function endSpecial(tx: Tx, columns: readonly Value[]): Promise<Settled[]> {
  const limited = tx.queues.hasLimits
    ? [...tx.queues.all].filter((queue) => queue.limited).map(({ id }) => id)
    : [];
  const values = [...columns, numbers(limited), KEY_AFTER_END];
  const keys = { sql: KEYS_OF_TASKS, values: [columns[0]!] };
  const rows = await tx.lockRows<Row>(END_SPECIAL, values, keys);
  if (rows.length === 0) return [];
  // A separate statement, because a signal that was stored while the claim was waited for is visible only now. It
  // waits for no lock: a transaction that locks these steps needs the claim first.
  tx.put(DELETE_ALL_STEPS, numbers(rows.map(([task]) => task)));
  const lanes: Lane[] = [];
  for (const [, id, serviceMs, groupKey] of rows) {
    const queue = tx.queues.of(id);
    tx.counters.count(queue, "claimed", -1);
    tx.counters.count(queue, "done", 1);
    const flow = tx.counters.flow(queue);
    flow.done++;
    flow.serviceMs += serviceMs;
    if (groupKey !== null) lanes.push({ queue: id, groupKey });
  }
  await freeGroups(tx, lanes);
  return rows.map(([task, queue, , , worker, attempt]) => ({ task, queue, worker, attempt }));
}
