import { join } from "node:path";
import { open } from "../src/index.ts";
import type { Contender, Payload } from "./contender.ts";
import { serveDibs } from "./peers/dibs-server.ts";
import { ON_POSTGRES, servePostgres } from "./peers/postgres.ts";

/** dibs, by its public API and with its defaults: full sync, ledger, heartbeats. */
export const dibs: Contender = {
  name: "dibs",
  durability: "on disk before every answer (SQLite WAL, fdatasync after every commit)",
  synced: true,
  can: ["addMany", "priority", "delay", "wakes"],
  missing: () => undefined,
  async serve(folder) {
    return { address: join(folder, "bench.db"), stop: async () => {} };
  },
  async connect(address, name) {
    const store = await open(address);
    const queue = store.queue<Payload>(name);
    return {
      add: (data, { priority, runAt } = {}) =>
        queue.add(data, { priority, ...(runAt !== undefined && { runAt: new Date(runAt) }) }),
      addMany: (batch) => queue.addMany(batch.map((data) => ({ data }))),
      async work(handler, { concurrency, ahead }) {
        const worker = queue.work(({ data }) => handler(data), { concurrency, prefetch: ahead });
        await worker.ready;
        // A worker that has stopped has settled all it handled.
        return { settled: () => worker.stop(), stop: () => worker.stop() };
      },
      close: () => store.close(),
    };
  },
};

/** The same on its own PostgreSQL server with default settings: every commit is flushed. */
export const dibsOnPostgres: Contender = {
  ...dibs,
  name: "dibs on PostgreSQL",
  durability: ON_POSTGRES,
  serve: servePostgres,
};

/** A server on a file, in a process of its own; every client is connected to it. */
export const dibsServer: Contender = {
  ...dibs,
  name: "dibs server",
  durability: dibs.durability,
  serve: serveDibs,
};
