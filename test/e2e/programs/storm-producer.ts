// Adds tasks until it is killed. Its next life goes on where its log ends: what it was not told of it adds again,
// with the same key.

import { existsSync } from "node:fs";
import type { QueuePolicyOptions } from "../../../src/index.ts";
import { Random } from "../../simulation/random.ts";
import { openSurely } from "./open-surely.ts";
import { readOptions, say } from "./say.ts";
import { readLog, StormLog } from "./storm-log.ts";

const options = readOptions() as {
  file: string;
  log: string;
  name: string;
  seed: number;
  policy: QueuePolicyOptions;
};
const random = new Random(options.seed);
const done = existsSync(options.log) ? readLog(options.log) : [];
const log = new StormLog(options.log);
const dibs = await openSurely(options.file);
const queue = dibs.queue<{ n: number }>("work", options.policy);
let last = done.reduce((most, entry) => (entry.kind === "added" ? Math.max(most, entry.n) : most), 0);
say("ready");

for (;;) {
  const count = random.chance(0.3) ? random.between(2, 20) : 1;
  const batch = Array.from({ length: count }, (_, index) => taskOf(last + index + 1));
  const added = await addSurely(batch);
  for (const [index, { id }] of added.entries()) {
    const { idempotencyKey: key, groupKey: group, data } = batch[index]!;
    log.write({ kind: "added", id, key, group: group ?? null, n: data.n });
  }
  last += count;
  await new Promise((resolve) => setTimeout(resolve, random.between(0, 5)));
}

/** The same for the same number in every life. */
function taskOf(n: number) {
  return {
    data: { n },
    idempotencyKey: `${options.name}-${n}`,
    ...(n % 3 === 0 && { groupKey: `${options.name}-${n % 4}` }),
    ...(n % 3 === 1 && { priority: n % 5 }),
    ...(n % 7 === 1 && n % 3 !== 0 && { delay: 50 }),
  };
}

/** A process that is frozen inside a transaction keeps the others waiting, longer than they are willing to. */
async function addSurely(batch: ReturnType<typeof taskOf>[]) {
  for (;;) {
    try {
      return await queue.addMany(batch);
    } catch (error) {
      const { code } = error as { code?: string };
      say("refused", { code, message: (error as Error).message });
      // Nobody knows whether it was added: with the same key it is not added twice.
      if (code !== "UNAVAILABLE" && code !== "OUTCOME_UNKNOWN") throw error;
    }
  }
}
