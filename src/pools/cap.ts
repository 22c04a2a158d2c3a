import { share } from "./share.ts";

/** The workers that all pools of a process may have together. Each pool asks before it changes its size. */
export class Cap {
  readonly #most: number;
  readonly #members = new Map<object, { min: number; size: number; processes: () => number }>();

  constructor(most: number) {
    this.#most = most;
  }

  join(pool: object, min: number, processes: () => number): void {
    this.#members.set(pool, { min, size: 0, processes });
  }

  leave(pool: object): void {
    this.#members.delete(pool);
  }

  /** How many workers the pool may have if it wants `size`. Workers of others that are still ending count. */
  limit(pool: object, size: number): number {
    const member = this.#members.get(pool);
    if (!member) return size;
    member.size = size;
    const all = [...this.#members.values()];
    const fair = share(this.#most, all)[all.indexOf(member)]!;
    const others = all.filter((each) => each !== member).reduce((sum, each) => sum + each.processes(), 0);
    return Math.max(0, Math.min(fair, this.#most - others));
  }
}
