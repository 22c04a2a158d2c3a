import type { EventEmitter } from "node:events";
import type { Contender, Payload } from "../contender.ts";
import { Acks } from "./acks.ts";
import { load, missingPackage } from "./packages.ts";
import { ON_POSTGRES, servePostgres } from "./postgres.ts";
import { missingRedis, REDIS_MODES, serveRedis } from "./redis.ts";

interface BullMq {
  Queue: new (name: string, options: { connection: object }, backend?: object) => BullQueue;
  Worker: new (
    name: string,
    handler: (job: { data: Payload }) => Promise<void>,
    options: { connection: object; concurrency: number },
    backend?: object,
  ) => EventEmitter & { close(): Promise<void>; waitUntilReady(): Promise<unknown> };
}

interface BullQueue {
  add(name: string, data: Payload, options?: { priority?: number; delay?: number }): Promise<unknown>;
  addBulk(jobs: { name: string; data: Payload }[]): Promise<unknown>;
  waitUntilReady(): Promise<unknown>;
  close(): Promise<void>;
}

/** The backend that stores its jobs. */
type Backing = (address: string) => { connection: object; backend?: object };

const JOB = "job";
const HIGHEST_PRIORITY = 10;

const CAN = ["addMany", "priority", "delay", "wakes"] as const;

export const bullmq: readonly Contender[] = REDIS_MODES.map((redis) => ({
  name: `BullMQ${redis.suffix}`,
  durability: redis.durability,
  synced: redis.synced,
  can: CAN,
  missing: () => missingRedis() ?? missingPackage("bullmq", "ioredis"),
  serve: (folder) => serveRedis(folder, redis),
  connect: connectTo((address) => ({
    connection: { host: "127.0.0.1", port: Number(address), maxRetriesPerRequest: null },
  })),
}));

export const bullmqOnPostgres: readonly Contender[] = [
  {
    name: "BullMQ on PostgreSQL",
    isSlow: { but: [] },
    durability: ON_POSTGRES,
    synced: true,
    can: CAN,
    missing: () => missingPackage("bullmq", "pg"),
    serve: servePostgres,
    connect: connectTo((connectionString) => ({
      connection: { connectionString, migrate: true },
      backend: (load("bullmq") as { createPostgresBackend: object }).createPostgresBackend,
    })),
  },
];

function connectTo(backing: Backing): Contender["connect"] {
  return async (address, name) => {
    const { Queue, Worker } = load("bullmq") as BullMq;
    const { connection, backend } = backing(address);
    const queue = new Queue(name, { connection }, backend);
    await queue.waitUntilReady();
    return {
      add: (data, { priority, runAt } = {}) =>
        queue.add(JOB, data, {
          // BullMQ: lower is sooner, and 0 is no priority.
          ...(priority !== undefined && { priority: HIGHEST_PRIORITY - priority }),
          ...(runAt !== undefined && { delay: runAt - Date.now() }),
        }),
      addMany: (batch) => queue.addBulk(batch.map((data) => ({ name: JOB, data }))),
      async work(handler, { concurrency }) {
        const acks = new Acks();
        const handle = async ({ data }: { data: Payload }): Promise<void> => {
          acks.begin();
          handler(data);
        };
        const worker = new Worker(name, handle, { connection, concurrency }, backend);
        worker.on("completed", () => acks.end());
        worker.on("error", console.error);
        await worker.waitUntilReady();
        return { settled: () => acks.settled(), stop: () => worker.close() };
      },
      close: () => queue.close(),
    };
  };
}
