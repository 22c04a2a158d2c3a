// A worker program of a pool: opens the store itself, and stops on SIGTERM. Each task says how long it takes.

import { setTimeout as sleep } from "node:timers/promises";
import { open } from "../../../src/index.ts";

const dibs = await open(process.env["DIBS_URL"]);
process.on("SIGTERM", () => void dibs.close());
dibs.queue<{ ms: number }>("work", { lease: "10s" }).work(
  async ({ data }) => {
    await sleep(data.ms);
    return process.pid;
  },
  // A task that a worker has claimed ahead does not wait any more, by the figures.
  { prefetch: 0 },
);
