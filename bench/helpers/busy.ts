// Adds and works as fast as it can, until it is killed.

import { open } from "../../src/index.ts";
import { helperTask, say } from "../helper.ts";
import { payloads } from "../measure.ts";
import type { BusyTask } from "../scenarios/start-up.ts";

const { path, queue: name } = helperTask() as BusyTask;
const dibs = await open(path);
const queue = dibs.queue(name);
const worker = queue.work(() => {}, { concurrency: 100, prefetch: 200 });
await worker.ready;
say("ready");

const batch = payloads(500).map((data) => ({ data }));
for (;;) await queue.addMany(batch);
