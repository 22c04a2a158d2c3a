import { type Dibs, open } from "../../src/index.ts";
import { QUEUE } from "../deep.ts";
import { servePostgres } from "../peers/postgres.ts";
import { type Bench, type Figure, rate, type Scenario, times } from "../scenario.ts";
import { addTo, ask, makeDatabase } from "./postgres-depth.ts";

export const postgresStatistics: Scenario = {
  name: "postgres-statistics",
  about:
    "dibs on PostgreSQL: tasks added to a new store and drained (concurrency 100, 200 fetched ahead) by a process that had it open before; never analyzed, analyzed when it was full, and analyzed when it was small, which is what the process then planned for",
  needs: "dibs",
  async run(bench) {
    const service = await servePostgres();
    try {
      return await compare(bench, service.address);
    } finally {
      await service.stop();
    }
  },
};

type Analyzed = "never" | "full" | "small";
const LABELS: Record<Analyzed, string> = {
  never: "never analyzed",
  full: "analyzed when full",
  small: "analyzed when small",
};

/** One by one, so that the process has planned its statements for a small store. */
const FIRST = 10;

async function compare(bench: Bench, server: string): Promise<Figure[]> {
  const count = bench.size(50_000, 1_000);
  // Otherwise server and V8 would not be warm for the first one.
  await drain(await makeDatabase(server, "warm_up"), count, "never");
  const figures: Figure[] = [];
  let first: number | undefined;
  for (const analyzed of ["never", "full", "small"] as const) {
    const perSecond = await drain(await makeDatabase(server, `statistics_${analyzed}`), count, analyzed);
    figures.push(rate(LABELS[analyzed], perSecond));
    if (first !== undefined) figures.push(times(`${LABELS[analyzed]}, against the first`, perSecond / first));
    first ??= perSecond;
  }
  return figures;
}

async function drain(url: string, count: number, analyzed: Analyzed): Promise<number> {
  await using dibs = await open(url);
  await leaveStatisticsAlone(url);
  for (let n = 0; n < FIRST; n++) {
    if (n === FIRST / 2 && analyzed === "small") await ask(url, "ANALYZE");
    await passOne(dibs);
  }
  await addTo(url, count);
  if (analyzed === "full") await ask(url, "ANALYZE");
  const all = Promise.withResolvers<void>();
  let handled = 0;
  const start = performance.now();
  const worker = dibs.queue(QUEUE).work(() => void (++handled === count && all.resolve()), {
    concurrency: 100,
    prefetch: 200,
  });
  await all.promise;
  const taken = performance.now() - start;
  await worker.stop();
  return (count / taken) * 1_000;
}

async function passOne(dibs: Dibs): Promise<void> {
  const queue = dibs.queue(QUEUE);
  await queue.add({});
  const [claim] = await queue.claim({ max: 1 });
  await claim!.ack();
}

/** Autovacuum could analyze the tables during the measurement. */
async function leaveStatisticsAlone(url: string): Promise<void> {
  await ask(
    url,
    `DO $$ DECLARE name text; BEGIN
      FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'dibs' LOOP
        EXECUTE format('ALTER TABLE dibs.%I SET (autovacuum_enabled = false)', name);
      END LOOP;
    END $$`,
  );
}
