// Adds tasks until it is killed. Its next life continues where its log ends: it repeats adds without an answer with the
// same key, and the last answered ones too, whose keys must lead to the same tasks. It never repeats those without a key.

import { existsSync } from "node:fs";
import type { AddOptions, QueuePolicyOptions } from "../../../src/index.ts";
import { Random } from "../../simulation/random.ts";
import { openSurely } from "./open-surely.ts";
import { readOptions, say } from "./say.ts";
import { readLog, StormLog } from "./storm-log.ts";

const options = readOptions() as {
  file: string;
  log: string;
  name: string;
  seed: number;
  withoutKeys: boolean;
  policy: QueuePolicyOptions;
  durability?: "relaxed";
};
const REPEATED = 20;

interface Data {
  by: string;
  n: number;
}

type NewTask = { data: Data } & AddOptions;

const random = new Random(options.seed);
const done = existsSync(options.log) ? readLog(options.log) : [];
const log = new StormLog(options.log);
const dibs = await openSurely(options.file, options.durability && { durability: options.durability });
const queue = dibs.queue<Data>("work", options.policy);
let last = done.reduce((most, entry) => ("n" in entry ? Math.max(most, entry.n) : most), 0);
if (!options.withoutKeys) last = Math.max(0, last - REPEATED);
say("ready");

for (;;) {
  const count = random.chance(0.3) ? random.between(2, 20) : 1;
  const numbers = Array.from({ length: count }, (_, index) => last + index + 1);
  if (options.withoutKeys) for (const n of numbers) log.write({ kind: "adding", by: options.name, n });
  const batch = numbers.map((n) => (options.withoutKeys ? taskWithoutKey(n) : taskOf(n)));
  const added = await addSurely(batch);
  for (const [index, { id }] of added.entries()) {
    const { data, idempotencyKey: key = null } = batch[index]!;
    log.write({ kind: "added", id, ...data, key });
  }
  last += count;
  await new Promise((resolve) => setTimeout(resolve, random.between(0, 5)));
}

/** The same for the same number in every life. */
function taskOf(n: number): NewTask {
  return {
    data: { by: options.name, n },
    idempotencyKey: `${options.name}-${n}`,
    ...(n % 3 === 0 && { groupKey: `${options.name}-${n % 4}` }),
    ...(n % 3 === 1 && { priority: n % 5 }),
    ...(n % 7 === 1 && n % 3 !== 0 && { delay: 50 }),
  };
}

/** Without a group too: a task of an earlier life whose answer was lost may arrive after later ones. */
function taskWithoutKey(n: number): NewTask {
  return {
    data: { by: options.name, n },
    ...(n % 3 === 1 && { priority: n % 5 }),
    ...(n % 7 === 1 && { delay: 50 }),
  };
}

/**
 * A process that is frozen inside a transaction blocks the others for longer than they wait. After UNAVAILABLE nothing
 * was added, and the add is repeated. After OUTCOME_UNKNOWN only a key makes that safe.
 */
async function addSurely(batch: NewTask[]): Promise<{ id: string }[]> {
  for (;;) {
    try {
      const [{ data, ...addOptions }] = batch as [NewTask];
      return batch.length === 1 ? [await queue.add(data, addOptions)] : await queue.addMany(batch);
    } catch (error) {
      const { code } = error as { code?: string };
      say("refused", { code, message: (error as Error).message });
      if (code === "OUTCOME_UNKNOWN" && options.withoutKeys) return [];
      if (code !== "UNAVAILABLE" && code !== "OUTCOME_UNKNOWN") throw error;
    }
  }
}
