// A process with workers that do what their tasks say, and report every step to the test.

import { open, type Task } from "../../../src/index.ts";
import type { WorkerOptions } from "../harness/stage.ts";
import { type Act, perform } from "./acts.ts";
import { letGo, readOptions, say } from "./say.ts";

const options = readOptions() as WorkerOptions & { file: string; queue: string };
const logger = {
  warn: (message: string) => say("warned", { message }),
  error: (message: string) => say("erred", { message }),
};
const dibs = await open(options.file, { logger, poll: options.poll });
const queue = dibs.queue<Act>(options.queue, options.policy);
const name = options.work?.name ?? "worker";

async function handle(task: Task<Act>): Promise<unknown> {
  const { id, fence, attempt } = task;
  say("start", { id, fence, attempt, at: Date.now() });
  task.signal.addEventListener("abort", () => {
    say("abort", { id, fence, code: (task.signal.reason as { code?: string }).code });
  });
  try {
    return await perform(task, name);
  } finally {
    say("end", { id, fence, attempt });
  }
}

const workers = Array.from({ length: options.workers ?? 1 }, () =>
  queue.work(handle, { name, ...options.work }),
);
await Promise.all(workers.map((worker) => worker.ready));

process.on("SIGTERM", () => void stop());
say("ready", { workers: workers.map((worker) => worker.id) });

async function stop(): Promise<void> {
  say("stopping");
  const timeout = options.stopTimeout === undefined ? {} : { timeout: options.stopTimeout };
  await Promise.all(workers.map((worker) => worker.stop(timeout)));
  await dibs.close();
  say("stopped");
  letGo();
}
