/**
 * The order in which a worker with `order: "fair"` claims from its queues, and how many tasks of each. claimer.ts uses it.
 *
 * A claim begins behind the last queue that gave a task to an earlier one. With more queues than a claim has tasks, all
 * queues so have their turn before one has its second.
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
    const span = Math.ceil(max / share);
    // If all queues have their turn, another one is the first, because the last ones may get less.
    this.#turns += span < length ? span : length + 1;
    const start = from % length;
    return { from, share, queues: [...this.#queues.slice(start), ...this.#queues.slice(0, start)] };
  }

  /** The tasks of a claim have come. It went further than expected if some queues were empty. */
  took({ from }: Turn, tasks: readonly { queue: string }[]): void {
    const { length } = this.#queues;
    for (const { queue } of tasks) {
      const steps = (this.#places.get(queue)! - (from % length) + length) % length;
      this.#turns = Math.max(this.#turns, from + steps + 1);
    }
  }
}

export interface Turn {
  /** The number of turns before it. */
  from: number;
  queues: string[];
  /** The most that each queue gives, as long as others have tasks. */
  share: number;
}

/**
 * With more queues, a claim takes several tasks of each of so many: one of each costs a file twice as much, and PostgreSQL
 * several times, because rows of one queue are next to each other. Claims of few tasks still take one of each.
 */
const LEAST_QUEUES = 32;

function shareOf(max: number, queues: number): number {
  return Math.max(Math.ceil(max / queues), Math.floor(max / LEAST_QUEUES), 1);
}
