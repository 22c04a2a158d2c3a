import { setTimeout as sleep } from "node:timers/promises";
import type { Task } from "../worker/task.ts";

/** Simulates the time that real work takes. Ends early when the task's signal aborts. */
export async function nap({ signal }: Pick<Task, "signal">, ms: number): Promise<void> {
  await sleep(ms, undefined, { signal });
}
