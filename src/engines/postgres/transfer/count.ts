import { type Counts, noCounts } from "../../../core/record/record.ts";
import type { TaskState } from "../../../core/task/task.ts";
import type { Connection } from "../connection/connection.ts";

/** What an import is verified by. */

const of = (table: string, state: string): string => `SELECT queue, ${state} AS state FROM dibs.${table}`;
const TASKS = `
  SELECT queue.name, state, count(*)::int8 AS count FROM (
    ${["ready", "ready_elsewhere", "ready_sticky", "claim"].map((table) => of(table, "'ready'")).join(" UNION ALL ")}
    UNION ALL ${of("scheduled", "CASE WHEN signal IS NULL THEN 'scheduled' ELSE 'parked' END")}
    UNION ALL SELECT queue, 'scheduled' FROM dibs.inbox WHERE task IS NOT NULL
    UNION ALL ${of("waiting", "'waiting'")}
    UNION ALL ${of("verifying", "'verifying'")}
    UNION ALL ${of("ended", "state")}
    UNION ALL ${of("dead", "'dead'")}
  ) AS task JOIN dibs.queue ON queue.id = task.queue GROUP BY queue.name, state`;
const ROWS = `
  SELECT (SELECT count(*) FROM dibs.queue) AS queues, (SELECT count(*) FROM dibs.subscription) AS subscriptions,
    (SELECT count(*) FROM dibs.document) AS documents, (SELECT count(*) FROM dibs.run) AS runs,
    (SELECT count(*) FROM dibs.run_part) AS parts, (SELECT count(*) FROM dibs.child) AS children, (SELECT count(*) FROM dibs.idempotency) AS keys,
    (SELECT count(*) FROM dibs.attempt) + (SELECT count(*) FROM dibs.ended WHERE state = 'done') AS attempts,
    (SELECT count(*) FROM dibs.step) AS steps, (SELECT count(*) FROM dibs.log) AS lines`;

/** Counts the rows of a store, to verify an import: its counters could be wrong. transfer.ts calls it. */
export async function countStore(link: Connection): Promise<Counts> {
  const [counted] = await link.all<Omit<Counts, "tasks">>(ROWS);
  const rows = await link.all<{ name: string; state: TaskState; count: number }>(TASKS);
  const tasks = Object.fromEntries(
    [...Map.groupBy(rows, ({ name }) => name)].map(([name, some]) => [
      name,
      Object.fromEntries(some.map(({ state, count }) => [state, count])),
    ]),
  );
  return { ...noCounts(), ...counted, tasks };
}
