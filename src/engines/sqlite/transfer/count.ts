import { type Counts, noCounts } from "../../../core/record/record.ts";
import type { DepthByState, TaskState } from "../../../core/task/task.ts";
import type { Tx } from "../transaction/tx.ts";

// Grouped by queue only, which is the order of the tables' keys. To group by state too would sort all rows: with 10
// million tasks that took 25 MB of memory, and temporary files.
const of = (table: string, states: Partial<Record<TaskState, string>>): string => {
  const counts = Object.entries(states).map(([state, condition]) => `sum(${condition}) AS ${state}`);
  return `SELECT queue, ${counts.join(", ")} FROM ${table} GROUP BY queue`;
};
const TASKS = [
  ...["ready", "ready_elsewhere", "ready_sticky", "claim"].map((table) => of(table, { ready: "1" })),
  of("scheduled", { scheduled: "signal IS NULL", parked: "signal IS NOT NULL" }),
  of("waiting", { waiting: "1" }),
  of("verifying", { verifying: "1" }),
  of("ended", { done: "state = 'done'", cancelled: "state = 'cancelled'", expired: "state = 'expired'" }),
  of("dead", { dead: "1" }),
];
const ROWS = `
  SELECT (SELECT count(*) FROM queue) AS queues, (SELECT count(*) FROM subscription) AS subscriptions,
    (SELECT count(*) FROM document) AS documents, (SELECT count(*) FROM run) AS runs,
    (SELECT count(*) FROM run_part) AS parts, (SELECT count(*) FROM child) AS children, (SELECT count(*) FROM idempotency) AS keys,
    (SELECT count(*) FROM attempt) + (SELECT count(*) FROM ended WHERE state = 'done') AS attempts,
    (SELECT count(*) FROM step) AS steps, (SELECT count(*) FROM log) AS lines`;

/** The content of the store, counted from its rows and not from its counters. */
export function countStore(tx: Tx): Counts {
  const counts: Counts = { ...noCounts(), ...tx.get<Omit<Counts, "tasks">>(ROWS)! };
  const depths = new Map<number, Partial<DepthByState>>();
  for (const sql of TASKS) {
    for (const { queue, ...found } of tx.all<{ queue: number } & Partial<DepthByState>>(sql)) {
      const depth = depths.get(queue) ?? {};
      depths.set(queue, depth);
      for (const [state, count] of Object.entries(found) as [TaskState, number][])
        if (count > 0) depth[state] = (depth[state] ?? 0) + count;
    }
  }
  counts.tasks = Object.fromEntries([...depths].map(([queue, depth]) => [tx.queues.of(queue).name, depth]));
  return counts;
}
