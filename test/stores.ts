import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { type Dibs, open, type OpenOptions } from "../src/index.ts";

/** The stores that the library's own tests run on. */
export const STORES = ["memory", "sqlite"] as const;

/** A fresh store, closed and removed when the test is over. */
export async function openStore(store: (typeof STORES)[number], options?: OpenOptions): Promise<Dibs> {
  const dibs = await open(store === "memory" ? ":memory:" : join(tempFolder(), "work.db"), options);
  onTestFinished(() => dibs.close());
  return dibs;
}

export function tempFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "dibs-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A promise that a test resolves by hand: how it waits for events instead of time. */
export function latch<T = void>(): { promise: Promise<T>; open: (value: T) => void } {
  const { promise, resolve } = Promise.withResolvers<T>();
  return { promise, open: resolve };
}
