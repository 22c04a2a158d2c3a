import { type Body, JSON_TYPE, type NewTask } from "../../core/task.ts";
import { chunks, sized } from "./chunks.ts";
import { SPECIAL } from "./special.ts";
import type { Queue, Tx } from "./tx.ts";

/**
 * Most tasks that are added are ready at once, and only their payload tells them apart. They are written many at
 * a time: before anything else of the transaction looks, or at its end. Their numbers follow each other.
 */
export class Newcomers {
  readonly #tx: Tx;
  #queue: Queue | undefined;
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
    if (queue !== this.#queue || plain !== this.#plain) this.write();
    const seq = ++this.#tx.seq;
    if (this.#tasks.length === 0) {
      this.#queue = queue;
      this.#plain = plain;
      this.#first = seq;
    }
    this.#tasks.push(task);
    // Counted at once: the next add of the same batch may be the one that does not fit.
    this.#tx.count(queue, "ready", 1);
    return seq;
  }

  write(): void {
    const count = this.#tasks.length;
    if (count === 0) return;
    const tx = this.#tx;
    const queue = this.#queue!;
    let first = this.#first;
    for (const tasks of chunks(this.#tasks)) {
      const shared = { first, queue: queue.id, now: tx.now };
      if (this.#plain) {
        tx.runMany(
          INSERT_PLAIN(tasks.length),
          tasks.map(({ data }) => data),
          shared,
        );
      } else {
        tx.runMany(INSERT_WHOLE(tasks.length), tasks.flatMap(wholeRow), shared);
      }
      first += tasks.length;
    }
    tx.run(this.#plain ? LINE_UP_PLAIN : LINE_UP, this.#first, this.#first + count - 1);
    tx.hintReady(queue, count);
    this.forget();
  }

  forget(): void {
    this.#queue = undefined;
    this.#tasks = [];
  }
}

const INSERT_PLAIN = sized(
  `INSERT INTO task (seq, queue, created_at, priority, data) VALUES `,
  (i) => `(:first + ${i}, :queue, :now, 0, ?)`,
);
const INSERT_WHOLE = sized(
  `INSERT INTO task (seq, queue, created_at, priority, max_attempts, content_type, headers, data) VALUES `,
  (i) => `(:first + ${i}, :queue, :now, ?, ?, ?, ?, ?)`,
);
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

function wholeRow(task: NewTask): (Body | number | null)[] {
  return [task.priority ?? 0, task.maxAttempts ?? null, contentTypeOf(task), headersOf(task), task.data];
}

/** As they are stored: null for what is the default. */
export function contentTypeOf({ contentType }: NewTask): string | null {
  return contentType === undefined || contentType === JSON_TYPE ? null : contentType;
}

export function headersOf({ headers }: NewTask): string | null {
  if (headers === undefined) return null;
  const text = JSON.stringify(headers);
  return text === "{}" ? null : text;
}
