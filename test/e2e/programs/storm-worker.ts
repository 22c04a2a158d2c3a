// Works until it is killed: as a worker, or with manual claims that are often held for too long. Each ack adds a task
// to the queue "next", which must exist exactly if the ack was accepted.

import type { Claim, QueuePolicyOptions } from "../../../src/index.ts";
import { Random } from "../../simulation/random.ts";
import { openSurely } from "./open-surely.ts";
import { letGo, readOptions, say } from "./say.ts";
import { StormLog } from "./storm-log.ts";

const options = readOptions() as {
  file: string;
  log: string;
  policy: QueuePolicyOptions;
  name: string;
  seed: number;
  byHand: boolean;
  calm: boolean;
};
const random = new Random(options.seed);
const log = new StormLog(options.log);
const dibs = await openSurely(options.file);
const queue = dibs.queue<{ n: number }>("work", options.policy);
const next = dibs.queue<{ of: string; fence: number }>("next");

if (options.byHand) void workByHand();
else await work();

async function work(): Promise<void> {
  const worker = queue.work(
    async (task) => {
      began(task);
      if (!options.calm) await misbehave(task);
      await ack(task);
    },
    { concurrency: 5, prefetch: 5, name: options.name },
  );
  await worker.ready;
  process.on("SIGTERM", () => void stop());
  say("ready");

  async function stop(): Promise<void> {
    await worker.stop();
    await dibs.close();
    letGo();
  }
}

async function workByHand(): Promise<void> {
  say("ready");
  for (;;) {
    const claims = await queue.claim({ max: 5, lease: 250, wait: 1_000 }).catch(noneWhereAway);
    for (const claim of claims) began(claim);
    await sleep(random.between(0, 500));
    for (const claim of claims) await ack(claim);
  }
}

function noneWhereAway(error: unknown): [] {
  const { code } = error as { code?: string };
  if (code !== "UNAVAILABLE" && code !== "OUTCOME_UNKNOWN") throw error;
  return [];
}

function began({ id, fence, attempt }: Claim): void {
  log.write({ kind: "began", id, fence, attempt, by: `${options.name}-${process.pid}` });
}

async function misbehave(task: Claim): Promise<void> {
  await sleep(random.chance(0.1) ? random.between(200, 600) : random.between(0, 15));
  if (random.chance(0.1)) await task.progress(random.next()).catch(() => {});
  if (random.chance(0.1)) await task.extend("1m").catch(() => {});
  if (random.chance(0.05)) block(random.between(0, 50));
  if (!random.chance(0.1)) return;
  log.write({ kind: "failing", id: task.id, fence: task.fence });
  throw new Error("a failure among others");
}

async function ack(claim: Claim): Promise<void> {
  const { id, fence } = claim;
  await claim.add(next, { of: id, fence });
  let isUnknown = false;
  for (;;) {
    try {
      await claim.ack({ id, fence });
      log.write({ kind: "acked", id, fence });
      return;
    } catch (error) {
      const { code } = error as { code?: string };
      // Lost, or accepted the first time and the answer was lost.
      if (code === "CLAIM_LOST" && isUnknown) return;
      if (code === "CLAIM_LOST") return log.write({ kind: "lost", id, fence });
      say("refused", { code, message: (error as Error).message });
      if (code !== "UNAVAILABLE" && code !== "OUTCOME_UNKNOWN") throw error;
      isUnknown ||= code === "OUTCOME_UNKNOWN";
      await sleep(50);
    }
  }
}

function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
