import type { QueueFigures } from "../core/task/task.ts";

/** Values of a sparkline: one a minute. */
const LENGTH = 30;

/** The depth of each queue in the last half hour, minute by minute, for the rows of the overview. */
export class Sparks {
  readonly #depths = new Map<string, { minute: number; values: (number | null)[] }>();
  #minute = 0;

  /** The last minute of which there is a value. */
  get minute(): number {
    return this.#minute;
  }

  /** @param minute since 1970 */
  add(queue: string, minute: number, depth: number | null): void {
    const known = this.#depths.get(queue) ?? { minute: minute - 1, values: [] };
    if (minute <= known.minute) return;
    const missing = Math.min(minute - known.minute - 1, LENGTH);
    known.values.push(...Array.from({ length: missing }, () => null), depth);
    known.values.splice(0, known.values.length - LENGTH);
    known.minute = minute;
    this.#depths.set(queue, known);
    this.#minute = Math.max(this.#minute, minute);
  }

  of(queue: string): (number | null)[] {
    const known = this.#depths.get(queue);
    if (!known) return [];
    const missing = Math.min(this.#minute - known.minute, LENGTH);
    return [...known.values, ...Array.from({ length: missing }, () => null)].slice(-LENGTH);
  }

  /** Forgets queues that are gone. */
  keep(queues: ReadonlySet<string>): void {
    for (const name of this.#depths.keys()) if (!queues.has(name)) this.#depths.delete(name);
  }
}

export function depthOf({ depth }: Pick<QueueFigures, "depth">): number {
  return depth.ready + depth.waiting;
}
