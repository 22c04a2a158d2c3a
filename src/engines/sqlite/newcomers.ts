import { type Body, type Headers, JSON_TYPE, type NewTask } from "../../core/task.ts";
import { chunks, sized } from "./chunks.ts";
import { SPECIAL } from "./special.ts";
import type { Queue, Tx } from "./tx.ts";

/**
 * Most tasks that are added are ready at once, and only their payload tells them apart. They are written many at
 * a time: before anything else of the transaction looks, or at its end. Their numbers follow each other. Those of one
 * queue need not be told its number each; what is published goes to several in turn.
 */
export class Newcomers {
  readonly #tx: Tx;
  /** Of each task. */
  #queues: Queue[] = [];
  #mixed = false;
  #plain = true;
  #first = 0;
  #tasks: NewTask[] = [];

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  /** The number it gets; undefined for a task that needs more than a place in line. */
  take(queue: Queue, task: NewTask): number | undefined {
    if (!isUsual(queue, task)) {
      this.write();
      return undefined;
    }
    const plain = isPlain(task);
    if (plain !== this.#plain) this.write();
    const seq = ++this.#tx.seq;
    if (this.#tasks.length === 0) {
      this.#plain = plain;
      this.#first = seq;
    } else if (queue !== this.#queues[0]) {
      this.#mixed = true;
    }
    this.#tasks.push(task);
    this.#queues.push(queue);
    // Counted at once: the next add of the same batch may be the one that does not fit.
    this.#tx.count(queue, "ready", 1);
    return seq;
  }

  write(): void {
    const count = this.#tasks.length;
    if (count === 0) return;
    const tx = this.#tx;
    const kind = `${this.#mixed ? "mixed" : "single"}${this.#plain ? "Plain" : "Whole"}` as const;
    const queue = this.#queues[0]!.id;
    let from = 0;
    for (const tasks of chunks(this.#tasks)) {
      const first = this.#first + from;
      const shared = this.#mixed ? { first, now: tx.now } : { first, now: tx.now, queue };
      tx.runMany(INSERT[kind](tasks.length), this.#values(tasks, from), shared);
      from += tasks.length;
    }
    tx.run(this.#plain ? LINE_UP_PLAIN : LINE_UP, this.#first, this.#first + count - 1);
    if (this.#mixed) for (const queue of this.#queues) tx.hintReady(queue);
    else tx.hintReady(this.#queues[0]!, count);
    this.forget();
  }

  #values(tasks: readonly NewTask[], from: number): (Body | number | null)[] {
    if (this.#mixed) {
      const rest = this.#plain ? plainRow : wholeRow;
      return tasks.flatMap((task, i) => [this.#queues[from + i]!.id, ...rest(task)]);
    }
    return this.#plain ? tasks.map(({ data }) => data) : tasks.flatMap(wholeRow);
  }

  forget(): void {
    this.#queues = [];
    this.#mixed = false;
    this.#tasks = [];
  }
}

const INTO_PLAIN = `INSERT INTO task (seq, queue, created_at, priority, data) VALUES `;
const INTO_WHOLE = `INSERT INTO task (seq, queue, created_at, priority, max_attempts, content_type, headers, data) VALUES `;
const INSERT = {
  singlePlain: sized(INTO_PLAIN, (i) => `(:first + ${i}, :queue, :now, 0, ?)`),
  mixedPlain: sized(INTO_PLAIN, (i) => `(:first + ${i}, ?, :now, 0, ?)`),
  singleWhole: sized(INTO_WHOLE, (i) => `(:first + ${i}, :queue, :now, ?, ?, ?, ?, ?)`),
  mixedWhole: sized(INTO_WHOLE, (i) => `(:first + ${i}, ?, :now, ?, ?, ?, ?, ?)`),
};
const LINE_UP = `
  INSERT INTO ready (queue, rank, pos, task, failures, special)
  SELECT queue, 0 - priority, seq, seq, 0, ${SPECIAL} FROM task WHERE seq BETWEEN ? AND ?`;
const LINE_UP_PLAIN = `
  INSERT INTO ready (queue, rank, pos, task, failures, special)
  SELECT queue, 0, seq, seq, 0, 0 FROM task WHERE seq BETWEEN ? AND ?`;

/** Ready at once, with nothing to be written beside the task and its place. */
function isUsual(queue: Queue, task: NewTask): boolean {
  return (
    task.idempotencyKey === undefined &&
    task.groupKey === undefined &&
    task.ttl === undefined &&
    queue.policy.ttl === null &&
    !(task.delay !== undefined && task.delay > 0)
  );
}

function isPlain(task: NewTask): boolean {
  return (
    task.priority === undefined &&
    task.headers === undefined &&
    task.contentType === undefined &&
    task.maxAttempts === undefined
  );
}

function plainRow(task: NewTask): (Body | number | null)[] {
  return [task.data];
}

function wholeRow(task: NewTask): (Body | number | null)[] {
  return [task.priority ?? 0, task.maxAttempts ?? null, contentTypeOf(task), headersOf(task), task.data];
}

/** As they are stored: null for what is the default. */
export function contentTypeOf({ contentType }: Pick<NewTask, "contentType">): string | null {
  return contentType === undefined || contentType === JSON_TYPE ? null : contentType;
}

export function headersOf({ headers }: Pick<NewTask, "headers">): string | null {
  if (headers === undefined) return null;
  // The copies of what is published share theirs; those of another batch are other objects.
  if (headers !== lastHeaders.headers) lastHeaders = { headers, text: JSON.stringify(headers) };
  return lastHeaders.text === "{}" ? null : lastHeaders.text;
}

let lastHeaders: { headers: Headers | undefined; text: string } = { headers: undefined, text: "" };
