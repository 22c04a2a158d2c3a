import type { Reading } from "../../../src/core/time/clock.ts";
import type { QueueSummary } from "../../../src/core/answer/page.ts";
import {
  END_STATES,
  PENDING_STATES,
  type QueueStats,
  type TaskRecord,
  type TaskState,
  type WorkerRecord,
} from "../../../src/core/task/task.ts";
import type { Op, Store } from "../../../src/engine/engine.ts";
import { answer } from "../known.ts";
import { check } from "./violation.ts";

/** Everything that the reading verbs show of a store at one moment. */
export interface Snapshot {
  tasks: Map<string, TaskRecord>;
  queues: QueueSummary[];
  stats: QueueStats[];
  workers: WorkerRecord[];
}

const STATES: readonly TaskState[] = [...PENDING_STATES, ...END_STATES];

export const EMPTY: Snapshot = { tasks: new Map(), queues: [], stats: [], workers: [] };

export function takeSnapshot(store: Store, reading: Reading): Snapshot {
  const [queues, workers] = store.execute(
    [
      { verb: "queues", limit: 1_000 },
      { verb: "workers", limit: 1_000 },
    ],
    reading,
  ).outcomes;
  const names = answer<"queues">(queues).items.map(({ name }) => name);
  const lists = names.flatMap((queue) =>
    STATES.map((state): Op<"list"> => ({ verb: "list", queue, state, limit: 100_000 })),
  );
  const stats = names.map((queue): Op<"stats"> => ({ verb: "stats", queue }));
  const { outcomes } = store.execute<Op[]>([...stats, ...lists], reading);
  const tasks = new Map<string, TaskRecord>();
  for (const [index, list] of lists.entries()) {
    for (const record of answer<"list">(outcomes[stats.length + index]!).tasks) {
      const other = tasks.get(record.id);
      check(!other, () => `task ${record.id} is listed twice: ${other!.state} and ${list.state}`);
      check(
        record.state === list.state && record.queue === list.queue,
        () =>
          `task ${record.id} is ${record.state} in ${record.queue}, and listed as ${list.state} in ${list.queue}`,
      );
      tasks.set(record.id, record);
    }
  }
  return {
    tasks,
    queues: answer<"queues">(queues).items,
    workers: answer<"workers">(workers).items,
    stats: stats.map((_, index) => answer<"stats">(outcomes[index]!)),
  };
}
