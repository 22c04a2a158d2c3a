import { storedContentType, storedHeaders } from "../../../core/task/add-rules.ts";
import { isChild } from "../../../core/handler/children.ts";
import { type Body, type NewTask, rankOf } from "../../../core/task/task.ts";
import type { RunTask } from "../../../core/run/run.ts";
import { chunks, sized } from "../statements/chunks.ts";
import { beginning, isOfRun, joining } from "../flows/runs.ts";
import { enterLinesAsNew, type NewKind } from "../line/enter-line.ts";
import type { Queue } from "./queue-cache.ts";
import type { Tx } from "./tx.ts";

/**
 * The fast path of `add`: collects tasks that are ready at once, and writes them in bulk before another verb reads, or at
 * the end of the transaction. verbs/add.ts fills it. An add in a batch of 500 takes 2.5 µs of CPU, and 9.9 on the general
 * path.
 *
 * The numbers of the buffered tasks are consecutive, and all have the same kind. If all are in one queue, its number is
 * passed once.
 */
export class AddBuffer {
  readonly #tx: Tx;
  /** The queue of each task. */
  #queues: Queue[] = [];
  /** The tasks are in more than one queue. */
  #mixed = false;
  #kind: NewKind = "dataOnly";
  #first = 0;
  #tasks: (NewTask | RunTask)[] = [];

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  /** Returns the number that the task gets; undefined for a task that needs the general path. */
  take(queue: Queue, task: NewTask | RunTask): number | undefined {
    if (!takesFastPath(queue, task)) {
      this.write();
      return undefined;
    }
    const kind = kindOf(task);
    if (kind !== this.#kind) this.write();
    const seq = ++this.#tx.seq;
    if (this.#tasks.length === 0) {
      this.#kind = kind;
      this.#first = seq;
    } else if (queue !== this.#queues[0]) {
      this.#mixed = true;
    }
    this.#tasks.push(task);
    this.#queues.push(queue);
    // Counted at once: the next add of the same batch may exceed maxDepth.
    this.#tx.counters.count(queue, "ready", 1);
    return seq;
  }

  write(): void {
    if (this.#tasks.length === 0) return;
    const tx = this.#tx;
    const hasOptions = this.#kind === "withOptions";
    const statement =
      `${this.#mixed ? "mixed" : "single"}${hasOptions ? "WithOptions" : "DataOnly"}` as const;
    const queue = this.#queues[0]!.id;
    let from = 0;
    for (const tasks of chunks(this.#tasks)) {
      const first = this.#first + from;
      const shared: Record<string, number> = this.#mixed
        ? { first, now: tx.now }
        : { first, now: tx.now, queue };
      tx.runMany(INSERT[statement](tasks.length), this.#values(tasks, from), shared);
      from += tasks.length;
    }
    if (this.#kind === "ofRun") this.#joinRuns();
    enterLinesAsNew(tx, this.#kind, this.#first, this.#queues);
    this.forget();
  }

  #joinRuns(): void {
    const tx = this.#tx;
    const tasks = this.#tasks.filter((task) => isOfRun(task));
    const begun = tasks.flatMap((task, i) => ("at" in task ? [] : [beginning(tx, this.#first + i, task)]));
    for (const rows of chunks(begun)) tx.runMany(BEGIN_RUNS(rows.length), rows.flat(), {});
    const joined = tasks.map((task, i) => joining(tx, this.#first + i, task));
    for (const rows of chunks(joined)) tx.runMany(JOIN_RUNS(rows.length), rows.flat(), {});
    tx.noteRun();
  }

  #values(tasks: readonly NewTask[], from: number): (Body | number | null)[] {
    const hasOptions = this.#kind === "withOptions";
    if (this.#mixed) {
      const rest = hasOptions ? rowWithOptions : rowOfData;
      return tasks.flatMap((task, i) => [this.#queues[from + i]!.id, ...rest(task)]);
    }
    return hasOptions ? tasks.flatMap(rowWithOptions) : tasks.map(({ data }) => data);
  }

  forget(): void {
    this.#queues = [];
    this.#mixed = false;
    this.#tasks = [];
  }
}

const INTO_DATA_ONLY = `INSERT INTO task (seq, queue, created_at, priority, data) VALUES `;
const INTO_WITH_OPTIONS = `INSERT INTO task (seq, queue, created_at, priority, max_attempts, content_type, headers, data) VALUES `;
const INSERT = {
  singleDataOnly: sized(INTO_DATA_ONLY, (i) => `(:first + ${i}, :queue, :now, 0, ?)`),
  mixedDataOnly: sized(INTO_DATA_ONLY, (i) => `(:first + ${i}, ?, :now, 0, ?)`),
  singleWithOptions: sized(INTO_WITH_OPTIONS, (i) => `(:first + ${i}, :queue, :now, ?, ?, ?, ?, ?)`),
  mixedWithOptions: sized(INTO_WITH_OPTIONS, (i) => `(:first + ${i}, ?, :now, ?, ?, ?, ?, ?)`),
};
const BEGIN_RUNS = sized(
  `INSERT INTO run (id, created_at, queue, pipeline, stages, counts, under_way, dead) VALUES `,
  () => `(?, ?, ?, ?, ?, ?, 1, 0)`,
);
const JOIN_RUNS = sized(
  `INSERT INTO run_part (task, run, created_at, stage, part) VALUES `,
  () => `(?, ?, ?, ?, ?)`,
);

function kindOf(task: NewTask): NewKind {
  if (!hasNoOptions(task)) return "withOptions";
  return isOfRun(task) ? "ofRun" : "dataOnly";
}

/** It is ready at once, and has rows in `task`, in the line and, for a task of a run, in `run` and `run_part` only. */
function takesFastPath(queue: Queue, task: NewTask): boolean {
  return (
    task.idempotencyKey === undefined &&
    task.groupKey === undefined &&
    task.ttl === undefined &&
    task.cost === undefined &&
    queue.policy.ttl === null &&
    // A task of a run that also has options is of none of the kinds in which the buffer writes rows.
    (!isOfRun(task) || hasNoOptions(task)) &&
    !isChild(task) &&
    !(task.delay !== undefined && task.delay > 0)
  );
}

/** None of the options that are columns of `task`. */
function hasNoOptions(task: NewTask): boolean {
  return (
    task.priority === undefined &&
    task.urgent === undefined &&
    task.headers === undefined &&
    task.contentType === undefined &&
    task.maxAttempts === undefined
  );
}

function rowOfData(task: NewTask): (Body | number | null)[] {
  return [task.data];
}

function rowWithOptions(task: NewTask): (Body | number | null)[] {
  return [
    0 - rankOf(task),
    task.maxAttempts ?? null,
    storedContentType(task),
    storedHeaders(task),
    task.data,
  ];
}
