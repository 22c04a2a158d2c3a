// A process with one worker. Every worker fails at riddles; with `--clumsy` it fails at images too.

import { setTimeout as sleep } from "node:timers/promises";
import { open } from "../../src/index.ts";
import { leave, toldToStop, untilToldToStop } from "./child.ts";
import { jobs } from "./queue.ts";

const [path, name, manner] = process.argv.slice(2);
const stop = untilToldToStop();
const dibs = await open(path);

const worker = dibs.queue(jobs).work(
  async (task) => {
    const { kind, number } = task.data;
    await sleep(40 + ((number * 37) % 90));
    if (kind === "riddle") throw new Error("nobody knows the answer");
    if (kind === "image" && manner === "--clumsy") throw new Error("dropped the brush");
    return { by: name!, pid: process.pid };
  },
  { name: name!, concurrency: 3, prefetch: 1 },
);

await worker.ready;
process.send?.("ready");
await toldToStop(stop);
await worker.stop({ timeout: "10s" });
await dibs.close();
leave();
