/**
 * All randomness of a simulation comes from here, so that its seed determines everything. The generator is mulberry32.
 * Its methods are functions that can be destructured: `const { pick, chance } = random`.
 */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
    // Neighbouring seeds begin alike; a few rounds separate them.
    for (let i = 0; i < 4; i++) this.next();
  }

  /** From 0 up to 1. */
  readonly next = (): number => {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };

  /** A whole number, both ends included. */
  readonly between = (least: number, most: number): number => {
    return least + Math.floor(this.next() * (most - least + 1));
  };

  readonly chance = (probability: number): boolean => {
    return this.next() < probability;
  };

  readonly pick = <T>(list: readonly T[]): T => {
    return list[Math.floor(this.next() * list.length)]!;
  };

  /** A name, as often as its weight says. */
  readonly weighted = <Name extends string>(weights: Readonly<Record<Name, number>>): Name => {
    const entries = Object.entries(weights) as [Name, number][];
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [name, weight] of entries) {
      left -= weight;
      if (left < 0) return name;
    }
    return entries.at(-1)![0];
  };

  /** Some of them, at least one, in any order. */
  readonly some = <T>(list: readonly T[]): T[] => {
    const rest = [...list];
    const count = this.between(1, rest.length);
    return Array.from({ length: count }, () => rest.splice(this.between(0, rest.length - 1), 1)[0]!);
  };

  /** `value` with that probability, otherwise nothing: for optional options. */
  readonly maybe = <T extends object>(probability: number, value: () => T): T | Record<never, never> => {
    return this.chance(probability) ? value() : {};
  };
}
