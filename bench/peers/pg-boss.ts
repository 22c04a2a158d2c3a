import type { Contender, Payload } from "../contender.ts";
import { load, missingPackage } from "./packages.ts";
import { ON_POSTGRES, servePostgres } from "./postgres.ts";

interface PgBossModule {
  PgBoss: new (options: { connectionString: string; useListenNotify: boolean }) => Boss;
}

interface Boss {
  on(event: "error", listener: (error: unknown) => void): void;
  start(): Promise<unknown>;
  createQueue(name: string, options: { notify: boolean }): Promise<unknown>;
  send(name: string, data: Payload, options?: { priority?: number; startAfter?: Date }): Promise<unknown>;
  insert(name: string, jobs: { data: Payload }[]): Promise<unknown>;
  work(
    name: string,
    options: { batchSize: number; burstWhenBatchFull: boolean },
    handler: (jobs: { data: Payload }[]) => Promise<void>,
  ): Promise<string>;
  offWork(name: string, options: { wait: boolean }): Promise<unknown>;
  stop(options: { graceful: boolean }): Promise<void>;
}

/** pg-boss fetches and acks a batch as one, which is its form of concurrency. It uses LISTEN. */
export const pgBoss: readonly Contender[] = [
  {
    name: "pg-boss",
    isSlow: { but: ["add-many", "drain"] },
    durability: ON_POSTGRES,
    synced: true,
    can: ["addMany", "priority", "wakes"],
    missing: () => missingPackage("pg-boss", "pg"),
    serve: servePostgres,
    async connect(connectionString, queue) {
      const { PgBoss } = load("pg-boss") as PgBossModule;
      const boss = new PgBoss({ connectionString, useListenNotify: true });
      boss.on("error", console.error);
      await boss.start();
      await boss.createQueue(queue, { notify: true });
      return {
        add: (data, { priority } = {}) =>
          boss.send(queue, data, { ...(priority !== undefined && { priority }) }),
        addMany: (batch) =>
          boss.insert(
            queue,
            batch.map((data) => ({ data })),
          ),
        async work(handler, { concurrency, ahead = 0 }) {
          // One at a time, it would poll every two seconds.
          const batchSize = Math.max(concurrency + ahead, 2);
          await boss.work(queue, { batchSize, burstWhenBatchFull: true }, async (jobs) => {
            for (const { data } of jobs) handler(data);
          });
          // Waits for the current batch and its ack.
          const stop = async (): Promise<void> => void (await boss.offWork(queue, { wait: true }));
          return { settled: stop, stop };
        },
        close: () => boss.stop({ graceful: false }),
      };
    },
  },
];
