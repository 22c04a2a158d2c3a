import { startConsumer } from "../consumers.ts";
import type { Helper } from "../helper.ts";
import { inFlight, payload, seconds, until } from "../measure.ts";
import { type Bench, rate, type Scenario } from "../scenario.ts";

const CONSUMERS = 2;

export const processes: Scenario = {
  name: "processes",
  about:
    "a process adds 50,000 tasks, 500 calls under way, while two others work (concurrency 100); each task must be seen exactly once",
  needs: [],
  async run(bench) {
    const queue = await bench.connect("processes");
    await using helpers = new AsyncDisposableStack();
    const consumers: Helper[] = [];
    for (let i = 0; i < CONSUMERS; i++) consumers.push(helpers.use(await consume(bench)));
    const handled = countHandled(consumers);

    const count = bench.size(50_000, 1_000);
    const taken = await seconds(async () => {
      await inFlight(count, 500, (n) => queue.add(payload(n)));
      await until(() => handled() >= count);
    });
    checkEachOnce(count, (await Promise.all(consumers.map(seenBy))).flat());
    return [rate("one producer, two consumers", count / taken)];
  },
};

function consume(bench: Bench): Promise<Helper> {
  return startConsumer(bench, "processes", { concurrency: 100, ahead: 100, reports: "count" });
}

function countHandled(consumers: Helper[]): () => number {
  const counts = consumers.map(() => 0);
  for (const [i, consumer] of consumers.entries()) {
    consumer.onMessage((message) => {
      if (typeof message === "number") counts[i] = message;
    });
  }
  return () => counts.reduce((sum, count) => sum + count, 0);
}

async function seenBy(consumer: Helper): Promise<number[]> {
  let answer = await consumer.ask<{ seen: number[] } | number>("what did you see?");
  // A count may still have been in transit.
  while (typeof answer === "number") answer = await consumer.next();
  return answer.seen;
}

function checkEachOnce(added: number, seen: number[]): void {
  const distinct = new Set(seen);
  if (distinct.size !== seen.length || distinct.size !== added) {
    throw new Error(`${added} tasks were added, ${seen.length} seen, ${distinct.size} of them different.`);
  }
}
