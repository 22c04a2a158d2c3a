import type { KneePoint } from "./live-frames.ts";

/** Numbers of workers that have a point. */
const MOST = 50;

/** What was observed: the throughput with so many workers, the latest for each number of workers. */
export class KneePoints {
  readonly #points = new Map<number, KneePoint>();

  constructor(observed: readonly KneePoint[]) {
    for (const point of observed) this.#put(point);
  }

  /** @param hasWork without tasks, the throughput says nothing about the workers */
  observe(workers: number, donePerSecond: number, hasWork: boolean, at: number): void {
    if (workers > 0 && hasWork) this.#put({ workers, donePerSecond, at });
  }

  /** The newest last. */
  get list(): KneePoint[] {
    return [...this.#points.values()];
  }

  #put(point: KneePoint): void {
    this.#points.delete(point.workers);
    this.#points.set(point.workers, point);
    if (this.#points.size > MOST) this.#points.delete(this.#points.keys().next().value!);
  }
}
