/**
 * The order in which a worker with `order: "fair"` claims from its queues, and how many tasks of each. claimer.ts uses it.
 *
 * A claim begins behind the last queue that gave a task to an earlier one. With more queues than a claim has tasks, all
 * queues have their turn before one has its second.
 */
export class Rotation {
  readonly #queues: readonly string[];
  readonly #places: ReadonlyMap<string, number>;
  /** Turns given so far. Modulo the number of queues, it is the index of the next queue. */
  #turns = 0;

  constructor(queues: readonly string[]) {
    this.#queues = queues;
    this.#places = new Map(queues.map((queue, place) => [queue, place]));
  }

  /** A claim of so many tasks is sent. While it is in progress, the next one begins behind what it will probably take. */
  next(max: number): Turn {
    const { length } = this.#queues;
    const share = shareOf(max, length);
    const from = this.#turns;
    this.#turns = this.#after(from, Math.ceil(max / share));
    const start = from % length;
    return { from, max, share, queues: [...this.#queues.slice(start), ...this.#queues.slice(0, start)] };
  }

  /**
   * Corrects the turns when a claim is answered. The claim reached more queues than expected if some were empty, and
   * fewer if its tasks filled the answer: the queues after those have had no turn yet.
   */
  took({ from, max }: Turn, tasks: readonly { queue: string }[]): void {
    if (tasks.length === 0) return;
    const { length } = this.#queues;
    const start = from % length;
    const steps = tasks.map(({ queue }) => (this.#places.get(queue)! - start + length) % length);
    const reached = this.#after(from, Math.max(...steps) + 1);
    this.#turns = tasks.length < max ? reached : Math.max(this.#turns, reached);
  }

  /**
   * The turns after a claim that reached so many queues. If it reached all, the next claim begins one queue later,
   * because the last queue of a claim may get less.
   */
  #after(from: number, queues: number): number {
    const { length } = this.#queues;
    return from + (queues < length ? queues : length + 1);
  }
}

export interface Turn {
  /** The number of turns before this claim. */
  from: number;
  /** The most tasks of its claim. */
  max: number;
  queues: string[];
  /** The most that each queue gives, as long as others have tasks. */
  share: number;
}

/**
 * A large claim spreads over at least this many queues and takes several tasks of each, because rows of one queue are
 * next to each other. One task of each queue would cost SQLite twice as much, and PostgreSQL several times.
 */
const LEAST_QUEUES = 32;

function shareOf(max: number, queues: number): number {
  return Math.max(Math.ceil(max / queues), Math.floor(max / LEAST_QUEUES), 1);
}
