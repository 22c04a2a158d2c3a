import { setTimeout as sleep } from "node:timers/promises";
import type { Connection, Payload, WorkOptions } from "./contender.ts";

const BYTES = 200;
const EMPTY = JSON.stringify({ n: 0, text: "" }).length - 1;

/** A payload of the given size as JSON, 200 bytes by default. `n` identifies the task. */
export function payload(n = 0, bytes = BYTES): Payload {
  return { n, text: "x".repeat(Math.max(0, bytes - EMPTY - String(n).length)) };
}

export function payloads(count: number, first = 0): Payload[] {
  return Array.from({ length: count }, (_, i) => payload(first + i));
}

/** Calls `work` for 0 … count-1, `width` of them at a time. */
export async function inFlight(
  count: number,
  width: number,
  work: (index: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: width }, async () => {
      while (next < count) await work(next++);
    }),
  );
}

/** Calls `work` for each run of up to `size` numbers below `count`. */
export async function inBatches(
  count: number,
  size: number,
  work: (first: number, length: number) => Promise<unknown>,
): Promise<void> {
  for (let first = 0; first < count; first += size) await work(first, Math.min(size, count - first));
}

/** Adds tasks as fast as possible, for scenarios that do not measure adding. */
export async function fill(connection: Connection, count: number): Promise<void> {
  if (connection.addMany === undefined) {
    await inFlight(count, 500, (n) => connection.add(payload(n)));
  } else {
    await inBatches(count, 1_000, (first, length) => connection.addMany!(payloads(length, first)));
  }
}

/** Tasks a second, from the start of the worker until the last of `count` is acked. */
export async function drainRate(
  connection: Connection,
  count: number,
  options: WorkOptions,
): Promise<number> {
  const all = Promise.withResolvers<void>();
  let handled = 0;
  const start = performance.now();
  const consumer = await connection.work(() => {
    if (++handled === count) all.resolve();
  }, options);
  await all.promise;
  await consumer.settled();
  const taken = (performance.now() - start) / 1_000;
  await consumer.stop();
  return count / taken;
}

export async function seconds(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return (performance.now() - start) / 1_000;
}

/** Milliseconds on the machine's monotonic clock, the same in every process. */
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(1);
}

export function percentile(values: number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;
}

/** For an even number of values, the mean of the middle two. Taking the upper of two rounds would favour the better one. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export function mean(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
