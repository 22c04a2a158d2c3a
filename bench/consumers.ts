import { Helper } from "./helper.ts";
import type { Bench } from "./scenario.ts";

export interface ConsumerTask {
  contender: string;
  address: string;
  queue: string;
  concurrency: number;
  ahead?: number | undefined;
  /** "count": how many tasks it has handled. "delay": for each task, the time since the instant in its payload. */
  reports: "count" | "delay";
}

export function startConsumer(
  bench: Bench,
  queue: string,
  options: Pick<ConsumerTask, "concurrency" | "ahead" | "reports">,
): Promise<Helper> {
  const task: ConsumerTask = {
    contender: bench.contender.name,
    address: bench.settings.address,
    queue: bench.queueName(queue),
    ...options,
  };
  return Helper.start(new URL("helpers/consumer.ts", import.meta.url), task);
}
