import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { open } from "../../src/index.ts";
import { inFlight, PAYLOAD, type Scenario, seconds } from "../scenario.ts";

const CONSUMERS = 2;

/** One process adds while two others work, all on one file; every task must be seen exactly once. */
export const processes: Scenario = {
  name: "a producer and two consumer processes",
  unit: "tasks/s",
  higherIsBetter: true,
  async run({ storePath, scale }) {
    await using dibs = await open(storePath);
    const queue = dibs.queue("bench");
    const count = Math.ceil(50_000 * scale);
    const consumers = Array.from({ length: CONSUMERS }, () =>
      fork(new URL("processes-worker.ts", import.meta.url), [storePath]),
    );
    try {
      await Promise.all(consumers.map((consumer) => once(consumer, "message")));
      const ids = new Set<string>();
      const taken = await seconds(async () => {
        await inFlight(count, 500, async () => ids.add((await queue.add(PAYLOAD)).id));
        while ((await queue.stats()).depth.done < count)
          await new Promise((resolve) => setTimeout(resolve, 20));
      });
      checkEachOnce(ids, (await Promise.all(consumers.map(seenBy))).flat());
      return { "tasks through": count / taken };
    } finally {
      for (const consumer of consumers) consumer.kill();
    }
  },
};

async function seenBy(consumer: ChildProcess): Promise<string[]> {
  const answer = once(consumer, "message");
  consumer.send("what did you see?");
  return (await answer)[0] as string[];
}

function checkEachOnce(added: Set<string>, seen: string[]): void {
  const distinct = new Set(seen);
  if (
    distinct.size !== seen.length ||
    distinct.size !== added.size ||
    [...added].some((id) => !distinct.has(id))
  ) {
    throw new Error(
      `${added.size} tasks were added, ${seen.length} seen, ${distinct.size} of them different.`,
    );
  }
}
