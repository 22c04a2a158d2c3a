import type { EventEmitter } from "node:events";
import type { Contender, Payload } from "../contender.ts";
import { Acks } from "./acks.ts";
import { load, missingPackage } from "./packages.ts";
import { missingRedis, REDIS_MODES, type RedisMode, serveRedis } from "./redis.ts";

type BeeQueueClass = new (name: string, settings: Record<string, unknown>) => BeeQueue;

interface BeeQueue extends EventEmitter {
  ready(): Promise<unknown>;
  createJob(data: Payload): BeeJob;
  saveAll(jobs: BeeJob[]): Promise<Map<unknown, Error>>;
  process(concurrency: number, handler: (job: { data: Payload }) => Promise<void>): void;
  close(timeoutMs: number): Promise<void>;
}

interface BeeJob {
  delayUntil(instant: number): BeeJob;
  save(): Promise<unknown>;
}

const CLOSE_TIMEOUT_MS = 5_000;

export const beeQueue: readonly Contender[] = REDIS_MODES.map(mode);

function mode(redis: RedisMode): Contender {
  return {
    name: `bee-queue${redis.suffix}`,
    durability: redis.durability,
    synced: redis.synced,
    can: ["addMany", "delay", "wakes"],
    missing: () => missingRedis() ?? missingPackage("bee-queue"),
    serve: (folder) => serveRedis(folder, redis),
    async connect(address, name) {
      const Queue = load("bee-queue") as BeeQueueClass;
      // What its authors recommend for speed: no events between processes, no jobs stored in memory or after their end.
      const settings = {
        redis: { host: "127.0.0.1", port: Number(address) },
        getEvents: false,
        sendEvents: false,
        storeJobs: false,
        removeOnSuccess: true,
        activateDelayedJobs: true,
      };
      const queue = new Queue(name, settings);
      queue.on("error", console.error);
      await queue.ready();
      const close = (): Promise<void> => queue.close(CLOSE_TIMEOUT_MS);
      return {
        add: (data, { runAt } = {}) => {
          const job = queue.createJob(data);
          return (runAt === undefined ? job : job.delayUntil(runAt)).save();
        },
        addMany: (batch) => queue.saveAll(batch.map((data) => queue.createJob(data))),
        async work(handler, { concurrency }) {
          const acks = new Acks();
          queue.on("succeeded", () => acks.end());
          queue.process(concurrency, async ({ data }) => {
            acks.begin();
            handler(data);
          });
          return { settled: () => acks.settled(), stop: async () => {} };
        },
        close,
      };
    },
  };
}
