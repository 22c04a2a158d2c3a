import { type Dibs, open } from "../../src/index.ts";
import { inBatches, inFlight, payload } from "../measure.ts";
import { servePostgres } from "../peers/postgres.ts";
import { type Bench, type Figure, rate, type Scenario, times } from "../scenario.ts";

const STORES = 32;
const WORKERS = 4;
const FEW = 7;

export const postgresGroups: Scenario = {
  name: "postgres-groups",
  about: `dibs on PostgreSQL: tasks added one call at a time by ${STORES} stores, four calls each under way, without groups and to ${FEW} of them; and drained by ${WORKERS} stores out of 1,000 groups, and out of ${FEW}`,
  needs: "dibs",
  async run(bench) {
    const service = await servePostgres();
    try {
      await using stores = new AsyncDisposableStack();
      const all: Dibs[] = [];
      for (let i = 0; i < STORES; i++) all.push(stores.use(await open(service.address)));
      return [...(await added(bench, all)), ...(await drained(bench, all.slice(0, WORKERS)))];
    } finally {
      await service.stop();
    }
  },
};

async function added(bench: Bench, all: Dibs[]): Promise<Figure[]> {
  const count = bench.size(20_000, 400);
  const addTo = async (queue: string, groupKey: (n: number) => string | undefined): Promise<number> => {
    // The queue's first use, in each store.
    for (const dibs of all) await dibs.queue(queue).stats();
    const begun = performance.now();
    await inFlight(count, all.length * 4, (n) =>
      all[n % all.length]!.queue(queue).add(payload(n), { groupKey: groupKey(n) }),
    );
    return count / ((performance.now() - begun) / 1_000);
  };
  const plain = await addTo("plain", () => undefined);
  const grouped = await addTo("grouped", (n) => `group-${n % FEW}`);
  return [
    rate("added without groups", plain),
    rate(`added to ${FEW} groups`, grouped),
    times(`added to ${FEW} groups, against the first`, grouped / plain),
  ];
}

async function drained(bench: Bench, stores: Dibs[]): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const [groups, tasks] of [
    [bench.size(1_000, 100), bench.size(20_000, 400)],
    [FEW, bench.size(2_000, 140)],
  ] as const) {
    const queue = `of-${groups}`;
    await inBatches(tasks, 1_000, (first, length) =>
      stores[0]!.queue(queue).addMany(
        Array.from({ length }, (_, i) => ({
          data: payload(first + i),
          groupKey: `group-${(first + i) % groups}`,
        })),
      ),
    );
    figures.push(rate(`drained out of ${groups} groups`, await drainInOrder(stores, queue, tasks)));
  }
  return figures;
}

/** Tasks a second; one that overtakes another of its group fails the scenario. */
async function drainInOrder(stores: Dibs[], queue: string, tasks: number): Promise<number> {
  const all = Promise.withResolvers<void>();
  const last = new Map<string, number>();
  let seen = 0;
  const begun = performance.now();
  const workers = stores.map((dibs) =>
    dibs.queue<{ n: number }>(queue).work(
      ({ data, groupKey }) => {
        if ((last.get(groupKey!) ?? -1) >= data.n) all.reject(new Error(`${groupKey} is out of order`));
        last.set(groupKey!, data.n);
        if (++seen === tasks) all.resolve();
      },
      { concurrency: 100, prefetch: 200 },
    ),
  );
  await all.promise;
  const taken = (performance.now() - begun) / 1_000;
  await Promise.all(workers.map((worker) => worker.stop()));
  return tasks / taken;
}
