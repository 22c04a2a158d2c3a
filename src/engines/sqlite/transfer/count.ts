import { type Counts, noCounts } from "../../../core/record.ts";
import type { TaskState } from "../../../core/task.ts";
import type { Tx } from "../transaction/tx.ts";

const of = (table: string, state: string): string =>
  `SELECT queue, ${state} AS state, count(*) AS count FROM ${table} GROUP BY 1, 2`;
const TASKS = `
  SELECT queue, state, sum(count) AS count FROM (
    ${["ready", "kept", "own", "claim"].map((table) => of(table, "'ready'")).join(" UNION ALL ")}
    UNION ALL ${of("scheduled", "CASE WHEN signal IS NULL THEN 'scheduled' ELSE 'parked' END")}
    UNION ALL ${of("waiting", "'waiting'")}
    UNION ALL ${of("verifying", "'verifying'")}
    UNION ALL ${of("ended", "state")}
    UNION ALL ${of("dead", "'dead'")}
  ) GROUP BY queue, state`;
const ROWS = `
  SELECT (SELECT count(*) FROM queue) AS queues, (SELECT count(*) FROM subscription) AS subscriptions,
    (SELECT count(*) FROM document) AS documents, (SELECT count(*) FROM run) AS runs,
    (SELECT count(*) FROM run_part) AS parts, (SELECT count(*) FROM idempotency) AS keys,
    (SELECT count(*) FROM attempt) + (SELECT count(*) FROM ended WHERE state = 'done') AS attempts,
    (SELECT count(*) FROM step) AS steps`;

/** What is in the store, by its rows and not by its counters. */
export function countStore(tx: Tx): Counts {
  const counts: Counts = { ...noCounts(), ...tx.get<Omit<Counts, "tasks">>(ROWS)! };
  const rows = tx.all<{ queue: number; state: TaskState; count: number }>(TASKS);
  counts.tasks = Object.fromEntries(
    [...Map.groupBy(rows, ({ queue }) => queue)].map(([queue, some]) => [
      tx.queueOf(queue).name,
      Object.fromEntries(some.map(({ state, count }) => [state, count])),
    ]),
  );
  return counts;
}
