// A process that works on parents or on children, and kills itself at a moment that the test names.

import { type ChildHandle, open } from "../../../src/index.ts";
import { readOptions, say } from "./say.ts";

interface FamilyOptions {
  file: string;
  lease: number;
  role: "parent" | "child";
  /** When to die; the first time only, because the process is gone then. */
  die?: string;
}

const { file, lease, role, die } = readOptions() as FamilyOptions;
const policy = { lease, maxAttempts: 50, backoff: { type: "fixed", delay: 0, jitter: 0 } } as const;
const dibs = await open(file);
const parts = dibs.queue<number, number>("parts", policy);
const sums = dibs.queue<number, number>("sums", policy);

function reach(moment: string): void {
  if (die === moment) process.kill(process.pid, "SIGKILL");
}

const worker =
  role === "child"
    ? parts.work(({ data }) => {
        reach(`at ${data}`);
        return data * data;
      })
    : sums.work(async (task) => {
        const children: ChildHandle<number>[] = [];
        for (let n = 1; n <= task.data; n++) {
          children.push(await task.spawn(parts, n));
          reach(`spawned ${n}`);
        }
        const squares = await task.waitForChildren(children);
        reach("woken");
        return squares.reduce((sum, square) => sum + square, 0);
      });
await worker.ready;
say("ready");
