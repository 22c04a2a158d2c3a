import { onTestFinished } from "vitest";
import { inherited } from "../../src/programs/facts.ts";
import type { Ended } from "../../src/programs/launch.ts";
import { Programs, type ProgramsOptions } from "../../src/programs/programs.ts";
import { openStore } from "../stores.ts";

/** A store in memory, and a worker that runs a shell script on each task of the queue "work". */
export async function workWith(script: string, options: Partial<ProgramsOptions> = {}) {
  const dibs = await openStore("memory");
  const ended: Ended[] = [];
  const notStarted: Error[] = [];
  const programs = new Programs({
    command: ["/bin/sh", "-c", script],
    env: inherited(process.env, false),
    findQueue: (name) => dibs.queue(name),
    killAfter: 2_000,
    concurrency: 4,
    onEnded: (_, each) => void ended.push(each),
    onNotStarted: (error) => void notStarted.push(error),
    ...options,
  });
  const queue = dibs.queue("work", { backoff: { type: "fixed", delay: 0 } });
  const worker = queue.work((task) => programs.handle(task, "tester"), { concurrency: 4 });
  onTestFinished(async () => {
    await worker.stop({ timeout: 0 });
    await programs.kill();
    await programs.close();
  });
  return { dibs, queue, worker, programs, ended, notStarted };
}

/** Whether a process of this group, or the process itself, exists. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
