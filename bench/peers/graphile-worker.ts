import { EventEmitter } from "node:events";
import type { Contender, Payload, WorkOptions } from "../contender.ts";
import { Acks } from "./acks.ts";
import { load, missingPackage } from "./packages.ts";
import { ON_POSTGRES, servePostgres } from "./postgres.ts";

interface GraphileWorker {
  makeWorkerUtils: (options: Shared) => Promise<Utils>;
  run: (options: Shared & RunOptions) => Promise<{ stop(): Promise<void> }>;
  Logger: new (factory: () => () => void) => object;
}

interface Shared {
  connectionString: string;
  logger: object;
}

interface RunOptions {
  concurrency: number;
  events: EventEmitter;
  noHandleSignals: boolean;
  taskList: Record<string, (payload: unknown) => Promise<void>>;
  preset: { worker: Record<string, unknown> };
}

interface Utils {
  migrate(): Promise<void>;
  addJob(task: string, payload: Payload, spec?: { priority?: number; runAt?: Date }): Promise<unknown>;
  addJobs(jobs: { identifier: string; payload: Payload }[]): Promise<unknown>;
  release(): Promise<void>;
}

/** Its defaults; and what its manual recommends for many short tasks: prefetch, and acks collected for a moment. */
export const graphileWorker: readonly Contender[] = [
  mode("graphile-worker", ["add-many"], () => ({})),
  mode("graphile-worker, batching", ["add-many", "drain"], ({ concurrency, ahead = 0 }) => ({
    localQueue: { size: concurrency + ahead + 1 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  })),
];

function mode(
  name: string,
  quickIn: string[],
  settings: (options: WorkOptions) => Record<string, unknown>,
): Contender {
  return {
    name,
    isSlow: { but: quickIn },
    durability: ON_POSTGRES,
    synced: true,
    can: ["addMany", "priority", "delay", "wakes"],
    missing: () => missingPackage("graphile-worker", "pg"),
    serve: servePostgres,
    async connect(connectionString, task) {
      const { makeWorkerUtils, run, Logger } = load("graphile-worker") as GraphileWorker;
      const shared = { connectionString, logger: new Logger(() => () => {}) };
      const utils = await makeWorkerUtils(shared);
      await utils.migrate();
      return {
        add: (data, { priority, runAt } = {}) =>
          utils.addJob(task, data, {
            // For this peer, lower is sooner.
            ...(priority !== undefined && { priority: 0 - priority }),
            ...(runAt !== undefined && { runAt: new Date(runAt) }),
          }),
        addMany: (batch) => utils.addJobs(batch.map((payload) => ({ identifier: task, payload }))),
        async work(handler, options) {
          const acks = new Acks();
          const events = new EventEmitter();
          // Emitted when the store has it, not when the handler returns.
          events.on("job:complete", () => acks.end());
          const runner = await run({
            ...shared,
            concurrency: options.concurrency,
            events,
            noHandleSignals: true,
            taskList: {
              [task]: async (payload) => {
                acks.begin();
                handler(payload as Payload);
              },
            },
            preset: { worker: settings(options) },
          });
          return { settled: () => acks.settled(), stop: () => runner.stop() };
        },
        close: () => utils.release(),
      };
    },
  };
}
