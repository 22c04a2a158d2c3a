import type { EventEmitter } from "node:events";
import type { Contender, Payload } from "../contender.ts";
import { Acks } from "./acks.ts";
import { load, missingPackage } from "./packages.ts";
import { missingRedis, REDIS_MODES, type RedisMode, serveRedis } from "./redis.ts";

interface BullMq {
  Queue: new (name: string, options: { connection: Address }) => BullQueue;
  Worker: new (
    name: string,
    handler: (job: { data: Payload }) => Promise<void>,
    options: { connection: Address; concurrency: number },
  ) => EventEmitter & { close(): Promise<void>; waitUntilReady(): Promise<unknown> };
}

interface BullQueue {
  add(name: string, data: Payload, options?: { priority?: number; delay?: number }): Promise<unknown>;
  addBulk(jobs: { name: string; data: Payload }[]): Promise<unknown>;
  waitUntilReady(): Promise<unknown>;
  close(): Promise<void>;
}

interface Address {
  host: string;
  port: number;
  maxRetriesPerRequest: null;
}

const JOB = "job";
const HIGHEST_PRIORITY = 10;

export const bullmq: readonly Contender[] = REDIS_MODES.map(mode);

function mode(redis: RedisMode): Contender {
  return {
    name: `BullMQ${redis.suffix}`,
    durability: redis.durability,
    synced: redis.synced,
    can: ["addMany", "priority", "delay", "wakes"],
    missing: () => missingRedis() ?? missingPackage("bullmq", "ioredis"),
    serve: (folder) => serveRedis(folder, redis),
    async connect(address, name) {
      const { Queue, Worker } = load("bullmq") as BullMq;
      const connection: Address = { host: "127.0.0.1", port: Number(address), maxRetriesPerRequest: null };
      const queue = new Queue(name, { connection });
      await queue.waitUntilReady();
      return {
        add: (data, { priority, runAt } = {}) =>
          queue.add(JOB, data, {
            // Lower is sooner there, and 0 is no priority.
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
          const worker = new Worker(name, handle, { connection, concurrency });
          worker.on("completed", () => acks.end());
          worker.on("error", console.error);
          await worker.waitUntilReady();
          return { settled: () => acks.settled(), stop: () => worker.close() };
        },
        close: () => queue.close(),
      };
    },
  };
}
