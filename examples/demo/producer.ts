// A process that adds jobs in small batches until it is told to stop. The supervisor sends it its rate.

import { setTimeout as sleep } from "node:timers/promises";
import { open } from "../../src/index.ts";
import { leave, untilToldToStop } from "./child.ts";
import { type Added, type Job, jobs, type Kind } from "./queue.ts";

const BATCH_MS = 100;

const stop = untilToldToStop();
const dibs = await open(process.argv[2]);
const queue = dibs.queue(jobs);

let perSecond = 0;
process.on("message", (rate: number) => (perSecond = rate));

let number = 0;
let owed = 0;
while (!stop.aborted) {
  owed += (perSecond * BATCH_MS) / 1_000;
  const batch = Array.from({ length: Math.floor(owed) }, () => nextJob());
  owed -= batch.length;
  if (batch.length > 0) {
    const added = await queue.addMany(batch.map((data) => ({ data, ...laneOf(data) })));
    process.send?.({ ids: added.map((task) => task.id), jobs: batch } satisfies Added);
  }
  await sleep(BATCH_MS, undefined, { signal: stop }).catch(() => {});
}
await dibs.close();
leave();

function nextJob(): Job {
  number++;
  const kind: Kind =
    number % 97 === 0 ? "riddle" : number % 5 === 0 ? "chat" : number % 3 === 0 ? "image" : "letter";
  return { kind, number };
}

/** Chats of one customer stay in order: those behind the first are `waiting`. */
function laneOf({ kind, number }: Job): { groupKey?: string } {
  return kind === "chat" ? { groupKey: `customer-${number % 3}` } : {};
}
