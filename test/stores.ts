import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { freshSchema } from "./postgres/shared.ts";
import { type Dibs, open, type OpenOptions } from "../src/index.ts";

/** The stores that the library's own tests run on. */
export const STORES = ["memory", "sqlite", "postgres"] as const;
export type StoreName = (typeof STORES)[number];

/** A fresh store, closed and removed when the test is over. */
export async function openStore(store: StoreName, options?: OpenOptions): Promise<Dibs> {
  const { dibs, remove } = await makeStore(store, options);
  onTestFinished(remove);
  return dibs;
}

/** The same for more than one test: `remove` is the caller's to call. */
export async function makeStore(store: StoreName, options?: OpenOptions) {
  if (store === "postgres") return makeSchema(options);
  const folder = mkdtempSync(join(tmpdir(), "dibs-test-"));
  const dibs = await open(store === "memory" ? ":memory:" : join(folder, "work.db"), options);
  const remove = async (): Promise<void> => {
    await dibs.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return { dibs, remove };
}

async function makeSchema(options?: OpenOptions) {
  let drop = async (): Promise<void> => {};
  const { url, schema } = await freshSchema((undo) => (drop = undo));
  const dibs = await open(url, { schema, ...options });
  const remove = async (): Promise<void> => {
    await dibs.close();
    await drop();
  };
  return { dibs, remove };
}

/** A promise that a test resolves by hand: how it waits for events instead of time. */
export function latch<T = void>(): { promise: Promise<T>; open: (value: T) => void } {
  const { promise, resolve } = Promise.withResolvers<T>();
  return { promise, open: resolve };
}
