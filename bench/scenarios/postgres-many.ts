import { Client } from "pg";
import { type Dibs, open } from "../../src/index.ts";
import { inBatches, inFlight, payloads } from "../measure.ts";
import { servePostgres } from "../peers/postgres.ts";
import { type Bench, connections, type Figure, rate, type Scenario, times } from "../scenario.ts";

const STORES = 4;

export const postgresMany: Scenario = {
  name: "postgres-many",
  about:
    "dibs on PostgreSQL: 10,000 queues of two tasks, and one of 20,000, served by one worker (concurrency 100, 200 fetched ahead), and 20,000 tasks of one queue by 500 workers, one task at a time, that share the connections of four stores",
  needs: "dibs",
  async run(bench) {
    const service = await servePostgres();
    try {
      return [...(await manyQueues(bench, service.address)), ...(await manyWorkers(bench, service.address))];
    } finally {
      await service.stop();
    }
  },
};

async function manyQueues(bench: Bench, url: string): Promise<Figure[]> {
  await using dibs = await open(url);
  const names = Array.from({ length: bench.size(10_000, 100) }, (_, i) => `queue-${i}`);
  const prefetching = { concurrency: 100, prefetch: 200 };
  const tasks = 2 * names.length;
  await inBatches(tasks, 1_000, (first, length) =>
    dibs.queue("one").addMany(payloads(length, first).map((data) => ({ data }))),
  );
  const one = await handled(tasks, (count) => [dibs.queue("one").work(count, prefetching)]);
  await inFlight(names.length, 500, (i) =>
    dibs.queue(names[i]!).addMany(payloads(2).map((data) => ({ data }))),
  );
  const many = await handled(tasks, (count) => [dibs.work(names, count, { ...prefetching, order: "fair" })]);
  return [
    rate("one queue", one),
    rate(`${names.length} queues`, many),
    times(`${names.length} queues, against one`, many / one),
  ];
}

async function manyWorkers(bench: Bench, url: string): Promise<Figure[]> {
  await using stores = new AsyncDisposableStack();
  const all: Dibs[] = [];
  for (let i = 0; i < STORES; i++) all.push(stores.use(await open(url)));
  const [workers, tasks] = [bench.size(500, 40), bench.size(20_000, 400)];
  await inBatches(tasks, 1_000, (first, length) =>
    all[0]!.queue("work").addMany(payloads(length, first).map((data) => ({ data }))),
  );
  const perSecond = await handled(tasks, (count) =>
    Array.from({ length: workers }, (_, i) => all[i % STORES]!.queue("work").work(count)),
  );
  return [
    rate(`${workers} workers`, perSecond),
    connections(`${workers} workers, connections`, await countConnections(url)),
  ];
}

/** Tasks a second, from the start of the workers until the last is handled. */
async function handled(
  tasks: number,
  start: (count: () => void) => { stop(): Promise<void> }[],
): Promise<number> {
  const all = Promise.withResolvers<void>();
  let seen = 0;
  const begun = performance.now();
  const workers = start(() => {
    if (++seen === tasks) all.resolve();
  });
  await all.promise;
  const taken = (performance.now() - begun) / 1_000;
  await Promise.all(workers.map((worker) => worker.stop()));
  return tasks / taken;
}

async function countConnections(url: string): Promise<number> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const sql = `SELECT count(*)::int4 AS n FROM pg_stat_activity WHERE application_name = 'dibs'`;
    return ((await client.query(sql)).rows[0] as { n: number }).n;
  } finally {
    await client.end();
  }
}
