import { expect } from "vitest";
import {
  type AddOptions,
  type Dibs,
  type QueuePolicyOptions,
  Reject,
  type Task,
} from "../../../src/index.ts";

export const POLICY = {
  lease: "20s",
  maxAttempts: 4,
  elsewhere: 0,
  backoff: { type: "fixed", delay: 20, max: 20, jitter: 0 },
} satisfies QueuePolicyOptions;

export interface Job {
  n: number;
  group: string | null;
}

const GROUPS = 5;

/** The same for the same number: some in groups, some prioritised, some delayed, some with a key. */
export function taskOf(n: number): { data: Job } & AddOptions {
  const group = n % 4 === 0 ? `group-${(n / 4) % GROUPS}` : null;
  return {
    data: { n, group },
    headers: { n: `${n}` },
    ...(group !== null && { groupKey: group }),
    ...(n % 4 === 1 && { priority: n % 7 }),
    ...(n % 4 === 2 && { delay: n % 400 }),
    ...(n % 3 === 0 && { idempotencyKey: `key-${n}` }),
  };
}

const isDoomed = (n: number): boolean => n % 50 === 7;
const failsFirst = (n: number): boolean => n % 10 === 4 || n % 10 === 5;

/** Keeps the score of what workers of both stores do. */
export class Judge {
  readonly done = new Map<number, number>();
  readonly rejected = new Map<number, number>();
  readonly orders = new Map<string, number[]>();
  readonly #running = new Set<string>();
  readonly #attempts = new Map<number, number[]>();
  readonly violations: string[] = [];

  readonly handle = async (task: Task<Job>): Promise<string> => {
    const { n, group } = task.data;
    this.#attempts.set(n, [...(this.#attempts.get(n) ?? []), task.attempt]);
    if (task.headers["n"] !== `${n}`) this.violations.push(`${n} has lost its headers`);
    if (group !== null && this.#running.has(group)) this.violations.push(`two of ${group} run at once`);
    if (group !== null) this.#running.add(group);
    try {
      await new Promise((resolve) => setTimeout(resolve, n % 5));
      if (isDoomed(n)) {
        this.rejected.set(n, (this.rejected.get(n) ?? 0) + 1);
        throw new Reject(`${n} is doomed`);
      }
      if (failsFirst(n) && task.attempt === 1) throw new Error("at first it fails");
      this.done.set(n, (this.done.get(n) ?? 0) + 1);
      if (group !== null) this.orders.set(group, [...(this.orders.get(group) ?? []), n]);
      return `${n}`;
    } finally {
      if (group !== null) this.#running.delete(group);
    }
  };

  /** Every task of 1 to `last` exactly once, in its group's order, with its attempts counted through. */
  judge(last: number): void {
    const all = Array.from({ length: last }, (_, index) => index + 1);
    expect(this.violations).toEqual([]);
    expect(all.filter((n) => this.done.get(n) !== (isDoomed(n) ? undefined : 1))).toEqual([]);
    expect(all.filter((n) => this.rejected.get(n) !== (isDoomed(n) ? 1 : undefined))).toEqual([]);
    const expected = (n: number) => (failsFirst(n) ? [1, 2] : [1]);
    expect(all.filter((n) => JSON.stringify(this.#attempts.get(n)) !== JSON.stringify(expected(n)))).toEqual(
      [],
    );
    for (const order of this.orders.values()) expect(order).toEqual(order.toSorted((a, b) => a - b));
  }
}

/** Nothing is left to be done there. */
export async function isDrained(dibs: Dibs): Promise<boolean> {
  const { depth } = await dibs.queue("work").stats();
  return depth.ready + depth.waiting + depth.scheduled + depth.claimed === 0;
}
