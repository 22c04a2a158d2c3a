import type { Reading } from "../../../src/core/clock.ts";
import { END_STATES, PENDING_STATES, type QueueStats, type TaskRecord, type TaskState, type WorkerRecord } from "../../../src/core/task.ts";
import type { Op, QueueRecord, Store } from "../../../src/engine/engine.ts";
import { answer } from "../known.ts";

/** All that the reading verbs show of a store at one moment. */
export interface Snapshot {
  tasks: Map<string, TaskRecord>;
  queues: QueueRecord[];
  stats: QueueStats[];
  workers: WorkerRecord[];
}

const STATES: readonly TaskState[] = [...PENDING_STATES, ...END_STATES];

export const EMPTY: Snapshot = { tasks: new Map(), queues: [], stats: [], workers: [] };

export function takeSnapshot(store: Store, names: readonly string[], reading: Reading): Snapshot {
  const lists = names.flatMap((queue) =>
    STATES.map((state): Op<"list"> => ({ verb: "list", queue, state, limit: 100_000 })),
  );
  const stats = names.map((queue): Op<"stats"> => ({ verb: "stats", queue }));
  const ops: Op[] = [{ verb: "queues" }, { verb: "workers" }, ...stats, ...lists];
  const { outcomes } = store.run(ops, reading);
  const tasks = new Map<string, TaskRecord>();
  for (const [index, list] of lists.entries()) {
    for (const record of answer<"list">(outcomes[2 + stats.length + index]!).tasks) {
      if (tasks.has(record.id)) throw new Error(`task ${record.id} is listed twice: ${tasks.get(record.id)!.state} and ${list.state}`);
      if (record.state !== list.state || record.queue !== list.queue) {
        throw new Error(`task ${record.id} is ${record.state} in ${record.queue}, and listed as ${list.state} in ${list.queue}`);
      }
      tasks.set(record.id, record);
    }
  }
  return {
    tasks,
    queues: answer<"queues">(outcomes[0]!),
    workers: answer<"workers">(outcomes[1]!),
    stats: stats.map((_, index) => answer<"stats">(outcomes[2 + index]!)),
  };
}
