// A drone: takes one task, executes it, and ends. SIGTERM while it waits ends it.

import { setTimeout as sleep } from "node:timers/promises";
import { open } from "../../../src/index.ts";

const dibs = await open(process.env["DIBS_URL"]);
const stop = new AbortController();
process.on("SIGTERM", () => stop.abort());
const done = Promise.withResolvers<void>();
const worker = dibs.queue<{ ms: number }>("work", { lease: "10s" }).work(
  async ({ data }) => {
    await sleep(data.ms);
    done.resolve();
    return process.pid;
  },
  { prefetch: 0 },
);
stop.signal.addEventListener("abort", () => done.resolve());
await done.promise;
await worker.stop();
await dibs.close();
