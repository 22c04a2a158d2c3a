// Gets one answer about one task from its store, says so and dies, so that no later sync makes up for a missing one:
// power-cut/last-answer.test.ts cuts the power then.

import { type Claim, open } from "../../../src/index.ts";
import { readOptions, say } from "./say.ts";

/** What is answered last. */
export type LastAnswer = "added" | "claimed by hand" | "begun by a worker" | "acked";

const { file, answer } = readOptions() as { file: string; answer: LastAnswer };
const dibs = await open(file);
const queue = dibs.queue<string, string>("work", { lease: 500, maxAttempts: 10 });
// Declares the queue: each batch that follows has a single operation.
await queue.claim();
const added = await queue.add("data");
if (answer === "added") end(added);
if (answer === "begun by a worker") {
  queue.work(end);
} else {
  const [claim] = await queue.claim();
  if (answer === "claimed by hand") end(claim!);
  await claim!.ack("result");
  end(claim!);
}

/**
 * In the same turn of the event loop. To block that would not be enough: another thread sends a worker's heartbeats.
 */
function end({ id, fence }: Pick<Claim, "id"> & { fence?: number }): never {
  say(answer, { id, fence });
  process.kill(process.pid, "SIGKILL");
  throw new Error("unreachable");
}
