// A client of a server that adds and handles tasks of all kinds at a steady rate, until it is killed.

import { open } from "../../src/index.ts";
import { helperTask, say } from "../helper.ts";
import { payload } from "../measure.ts";
import type { MixedTask } from "../scenarios/memory.ts";

const TICK_MS = 50;
const GROUPS = 500;

const { url, client, perSecond } = helperTask() as MixedTask;
const dibs = await open(url);
const queue = dibs.queue("mixed", {
  backoff: { type: "fixed", delay: "1s", jitter: 0 },
});
let failing = 0;
const worker = queue.work(
  ({ attempt }) => {
    // One attempt in twenty fails, and no task twice.
    if (attempt === 1 && ++failing % 20 === 0) throw new Error("One in twenty.");
  },
  { concurrency: 50 },
);
await worker.ready;
say("ready");

let added = 0;
setInterval(() => {
  for (let i = 0; i < (perSecond * TICK_MS) / 1_000; i++) {
    const n = added++;
    queue
      .add(payload(n), {
        ...(n % 4 === 1 && { groupKey: `group-${n % GROUPS}` }),
        ...(n % 4 === 2 && { idempotencyKey: `${client}-${n}` }),
        ...(n % 4 === 3 && { delay: (n % 20) * 100 }),
      })
      .catch((error: unknown) => {
        throw error;
      });
  }
}, TICK_MS);
