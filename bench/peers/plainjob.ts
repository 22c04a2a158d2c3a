import { join } from "node:path";
import type { Contender, Payload } from "../contender.ts";
import { load, missingPackage } from "./packages.ts";

interface PlainJob {
  better(database: unknown): unknown;
  defineQueue(options: { connection: unknown; logger: Log }): PlainQueue;
  defineWorker(
    type: string,
    processor: (job: { data: string }) => void,
    options: { queue: PlainQueue; logger: Log },
  ): { start(): Promise<void>; stop(): Promise<void> };
}

interface PlainQueue {
  add(type: string, data: unknown, options?: { delay?: number }): unknown;
  addMany(type: string, data: unknown[]): unknown;
  close(): void;
}

type Log = Record<"error" | "warn" | "info" | "debug", (message: string) => void>;

const LOG: Log = { error: console.error, warn: console.warn, info: () => {}, debug: () => {} };

export const plainjob: readonly Contender[] = [
  {
    name: "plainjob",
    durability: "survives a crash of the process, not of the machine (SQLite WAL, synchronous=NORMAL)",
    synced: false,
    can: ["addMany", "delay"],
    missing: () => missingPackage("plainjob", "better-sqlite3"),
    async serve(folder) {
      return { address: join(folder, "plainjob.db"), stop: async () => {} };
    },
    async connect(address, type) {
      const plainjob = load("plainjob") as PlainJob;
      const Database = load("better-sqlite3") as new (path: string) => unknown;
      const queue = plainjob.defineQueue({ connection: plainjob.better(new Database(address)), logger: LOG });
      return {
        // It works in the caller's thread, so 500 calls in flight are 500 calls in a row.
        add: async (data, { runAt } = {}) =>
          queue.add(type, data, runAt === undefined ? {} : { delay: runAt - Date.now() }),
        addMany: async (batch) => queue.addMany(type, batch),
        /** One task at a time: it has no option for concurrency. */
        async work(handler) {
          const worker = plainjob.defineWorker(type, ({ data }) => handler(JSON.parse(data) as Payload), {
            queue,
            logger: LOG,
          });
          const stopped = worker.start();
          const stop = async (): Promise<void> => {
            await worker.stop();
            await stopped;
          };
          // The last ack is written in the same turn as its handler returns, or in the next.
          return { settled: stop, stop };
        },
        close: async () => queue.close(),
      };
    },
  },
];
