import type { Dibs } from "../../src/index.ts";
import { addTasks, compareDepths, type Depth } from "../deep.ts";
import type { Scenario } from "../scenario.ts";

/** Each adds something that a claim, a settlement or an add must check. The drained queue uses none of them. */
const FEATURES: readonly { label: string; use: (dibs: Dibs, count: number) => Promise<void> }[] = [
  { label: "topics beside", use: publish },
  { label: "runs of a pipeline beside", use: beginRuns },
  { label: "a verified queue beside", use: waitForVerdicts },
  { label: "parked tasks beside", use: park },
  { label: "limits beside", use: limit },
];

export const features: Scenario = {
  name: "features",
  about:
    "20,000 plain tasks drained alone, and in a store whose other queues use topics, pipelines, verdicts, signals or limits",
  needs: "dibs",
  run(bench) {
    const drained = bench.size(20_000, 1_000);
    const beside = bench.size(2_000, 50);
    const plain: Depth = { label: "plain", make: (dibs) => addTasks(dibs, drained) };
    const others = FEATURES.map(({ label, use }): Depth => ({
      label,
      async make(dibs) {
        await use(dibs, beside);
        await addTasks(dibs, drained);
      },
    }));
    return compareDepths(bench, "features", drained, [plain, ...others]);
  },
};

async function publish(dibs: Dibs, count: number): Promise<void> {
  for (const group of ["a", "b", "c"]) await dibs.subscription("order.*", group).ready;
  const placed = dibs.topic<number>("order.placed");
  await Promise.all(Array.from({ length: count }, (_, n) => placed.publish(n)));
}

async function beginRuns(dibs: Dibs, count: number): Promise<void> {
  const report = dibs
    .pipeline<number>("report")
    .stage("extract", (task) => task.data)
    .stage("review", (task) => task.data);
  await report.addMany(Array.from({ length: count }, (_, data) => ({ data })));
}

/** Their results wait, and no verifier runs. */
async function waitForVerdicts(dibs: Dibs, count: number): Promise<void> {
  const letters = dibs.queue<number>("letters", { verified: true });
  await letters.addMany(Array.from({ length: count }, (_, data) => ({ data })));
  for (let left = count; left > 0;) {
    const claims = await letters.claim({ max: 500 });
    await Promise.all(claims.map((claim) => claim.ack()));
    left -= claims.length;
  }
}

async function park(dibs: Dibs, count: number): Promise<void> {
  const orders = dibs.queue<number>("orders");
  await orders.addMany(Array.from({ length: count }, (_, data) => ({ data })));
  const worker = orders.work((task) => task.waitFor("payment"), { concurrency: 100 });
  while ((await orders.stats()).depth.parked < count) await new Promise((resolve) => setTimeout(resolve, 20));
  await worker.stop();
}

async function limit(dibs: Dibs, count: number): Promise<void> {
  const calls = dibs.queue<number>("calls", {
    rateLimit: { max: 1, per: "1h" },
    groups: { fair: true, concurrency: 3 },
  });
  await calls.addMany(Array.from({ length: count }, (_, data) => ({ data, groupKey: `key-${data % 50}` })));
}
