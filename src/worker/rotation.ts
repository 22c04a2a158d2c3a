/**
 * The order in which a worker with `order: "fair"` claims from its queues, and how many tasks of each. claimer.ts uses it.
 *
 * A claim begins behind the last queue that gave a task to an earlier one. With more queues than a claim has tasks, all
 * queues have their turn before one has its second.
 */
export class Rotation {
  readonly #queues: readonly string[];
  readonly #places: ReadonlyMap<string, number>;
  /** The turns that were given so far; its remainder is the place of the queue that is next. */
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
   * The tasks of a claim have come. It went further than expected if some queues were empty. It ended earlier if its
   * tasks were too large for one answer: the queues behind them have had no turn yet.
   */
  took({ from, max }: Turn, tasks: readonly { queue: string }[]): void {
    if (tasks.length === 0) return;
    const { length } = this.#queues;
    const start = from % length;
    const steps = tasks.map(({ queue }) => (this.#places.get(queue)! - start + length) % length);
    const reached = this.#after(from, Math.max(...steps) + 1);
    this.#turns = tasks.length < max ? reached : Math.max(this.#turns, reached);
  }

  /** The turns after a claim on so many queues. If it was on all, another one is the first, as the last may get less. */
  #after(from: number, queues: number): number {
    const { length } = this.#queues;
    return from + (queues < length ? queues : length + 1);
  }
}

export interface Turn {
  /** The number of turns before it. */
  from: number;
  /** The most tasks of its claim. */
  max: number;
  queues: string[];
  /** The most that each queue gives, as long as others have tasks. */
  share: number;
}

/**
 * A claim takes tasks of at least so many queues, if it is large enough: several of each, because rows of one queue are
 * next to each other. One task of each queue costs a file twice as much, and PostgreSQL several times.
 */
const LEAST_QUEUES = 32;

function shareOf(max: number, queues: number): number {
  return Math.max(Math.ceil(max / queues), Math.floor(max / LEAST_QUEUES), 1);
}
