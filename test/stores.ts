import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { Client } from "pg";
import { installClock, openByServerClock, ServerClock } from "./postgres/moved-clock.ts";
import { freshDatabase, usedSchema } from "./postgres/shared.ts";
import { Dibs } from "../src/api/dibs.ts";
import { openPort } from "../src/api/open.ts";
import { createBroker } from "../src/broker/broker.ts";
import { parseDuration } from "../src/core/time/duration.ts";
import { SILENT } from "../src/core/process/logger.ts";
import { systemClock } from "../src/engine/system-clock.ts";
import { open, type OpenOptions } from "../src/index.ts";
import type { ManualClock } from "../src/testing/manual-clock.ts";
import { startServer } from "./server/start.ts";

/** The stores that the library's own tests run on. */
export const STORES = ["memory", "sqlite", "postgres", "server"] as const;
export type StoreName = (typeof STORES)[number];

/** A new store, closed and removed at the end of the test. */
export async function openStore(store: StoreName, options?: OpenOptions): Promise<Dibs> {
  const { dibs, remove } = await makeStore(store, options);
  onTestFinished(remove);
  return dibs;
}

/** A store for several tests. The caller must call `remove`. */
export async function makeStore(store: StoreName, options?: OpenOptions) {
  if (store === "postgres") return options?.clock ? makeTimed(options) : makeSchema(options);
  if (store === "server") return makeServer(options);
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
  const { url, schema } = await usedSchema((undo) => (drop = undo));
  const dibs = await open(url, { schema, ...options });
  const remove = async (): Promise<void> => {
    await dibs.close();
    await drop();
  };
  return { dibs, remove };
}

/** A database whose server's clock the test moves. */
async function makeTimed({ clock, poll, logger = SILENT }: OpenOptions) {
  const undoing: (() => Promise<unknown>)[] = [];
  const url = await freshDatabase((undo) => undoing.unshift(undo));
  const admin = new Client({ connectionString: url });
  await admin.connect();
  undoing.unshift(() => admin.end());
  await installClock(admin);
  const hands = clock as ManualClock;
  const engine = await openByServerClock({ url, logger }, new ServerClock(admin, hands), {
    clock: hands,
    beats: hands,
  });
  const pollEvery = poll === undefined ? undefined : parseDuration(poll, "poll");
  const dibs = new Dibs(createBroker(engine, { clock: hands, logger, pollEvery }), logger);
  const remove = async (): Promise<void> => {
    await dibs.close();
    for (const undo of undoing) await undo();
  };
  return { dibs, remove };
}

/** A server on a store in memory, and its client. Options that a client cannot set go to the store. */
async function makeServer({ logger, clock = systemClock, ...ofStores }: OpenOptions = {}) {
  const store = await openPort(":memory:", { ...ofStores, clock });
  const server = await startServer(store, { clock });
  const dibs = await open(server.url, { clock, ...(logger && { logger }) });
  const remove = async (): Promise<void> => {
    await dibs.close();
    await server.close();
    await store.close();
  };
  return { dibs, remove };
}

/** A promise that a test resolves: a way to wait for events instead of time. */
export function latch<T = void>(): { promise: Promise<T>; open: (value: T) => void } {
  const { promise, resolve } = Promise.withResolvers<T>();
  return { promise, open: resolve };
}
