/** The largest of the values of the last while. Pools and the simulation keep what was needed a moment ago. */
export class RecentMost {
  readonly #forMs: number;
  /** In the order of time; each is larger than all that follow it, so that the first is the largest. */
  readonly #values: { at: number; value: number }[] = [];

  constructor(forMs: number) {
    this.#forMs = forMs;
  }

  add(at: number, value: number): void {
    while (this.#values.length > 0 && this.#values.at(-1)!.value <= value) this.#values.pop();
    this.#values.push({ at, value });
  }

  /** 0 if there is none. */
  most(now: number): number {
    while (this.#values.length > 0 && this.#values[0]!.at <= now - this.#forMs) this.#values.shift();
    return this.#values[0]?.value ?? 0;
  }
}
