import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A measurement that can be repeated. It uses the public API only, on a fresh store, with full sync. */
export interface Scenario {
  name: string;
  /** What its figures count. */
  unit: string;
  /** Whether a larger figure is the better one. */
  higherIsBetter: boolean;
  run(context: BenchContext): Promise<Record<string, number>>;
}

export interface BenchContext {
  /** The path or address of a store that nobody has used. */
  storePath: string;
  /** How much work: 1 for figures, less for a quick look. */
  scale: number;
}

/** 200 bytes as JSON, as the peers were measured with. */
export const PAYLOAD = { to: "someone@example.com", text: "x".repeat(161) };

export async function inFreshFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "dibs-bench-"));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Calls `work` for 0 … count-1, `width` of them under way at any time. */
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

export async function seconds(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return (performance.now() - start) / 1_000;
}

export function percentile(values: number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;
}
