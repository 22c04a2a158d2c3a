import { Client } from "pg";
import { open } from "../../src/index.ts";
import { addTasks, type DrainReport, type DrainTask, QUEUE } from "../deep.ts";
import { Helper } from "../helper.ts";
import { servePostgres } from "../peers/postgres.ts";
import { type Bench, type Figure, pages, rate, type Scenario, times } from "../scenario.ts";

export const postgresDepth: Scenario = {
  name: "postgres-depth",
  about:
    "dibs on PostgreSQL: tasks drained (concurrency 100, 200 fetched ahead) from a store that is new, with many waiting, after many passed through, and that with a transaction held open all the while; and the pages of the line that a task costs, dead rows included. --long: 2 million waiting, a million passed",
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

/** Tasks of another queue that the process drains first. */
const WARM_UP = 1_000;

/** What is done to a store before it is drained; answers how to undo it. */
type Preparation = (url: string) => Promise<(() => Promise<void>) | undefined>;

async function compare(bench: Bench, server: string): Promise<Figure[]> {
  const drained = bench.size(20_000, 1_000);
  const [waiting, passed] = bench.settings.long
    ? [2_000_000, 1_000_000]
    : [bench.size(200_000, 5_000), bench.size(100_000, 4_000)];
  const cases: [label: string, prepare: Preparation][] = [
    ["new", async () => undefined],
    [`${waiting} waiting`, (url) => addTo(url, waiting)],
    [`after ${passed}`, (url) => passThrough(url, passed)],
    [`after ${passed}, a transaction open`, (url) => passWhileHeld(url, passed)],
  ];
  // Otherwise the first case, which the others are compared with, would also warm the server up.
  await passThrough(await makeDatabase(server, "depth_warm_up"), drained);
  const figures: Figure[] = [];
  let first: number | undefined;
  for (const [i, [label, prepare]] of cases.entries()) {
    const url = await makeDatabase(server, `depth_${i}`);
    const undo = await prepare(url);
    await addTo(url, drained);
    const before = await pagesOfLine(url);
    const { perSecond } = await drain(url, drained);
    const perTask = ((await pagesOfLine(url)) - before) / (drained + WARM_UP);
    await undo?.();
    figures.push(rate(label, perSecond), pages(`${label}, pages a task`, perTask));
    if (first !== undefined) figures.push(times(`${label}, against the first`, perSecond / first));
    first ??= perSecond;
  }
  return figures;
}

export async function makeDatabase(server: string, name: string): Promise<string> {
  await ask(server, `CREATE DATABASE ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

export async function addTo(url: string, count: number): Promise<undefined> {
  await using dibs = await open(url);
  await addTasks(dibs, count);
}

async function passThrough(url: string, count: number): Promise<undefined> {
  await addTo(url, count);
  await drain(url, count);
}

/** As a report or a forgotten console does: from then on nothing that is deleted can be cleared away. */
async function passWhileHeld(url: string, count: number): Promise<() => Promise<void>> {
  const holder = new Client({ connectionString: url });
  await holder.connect();
  await addTo(url, 1);
  await holder.query(`BEGIN ISOLATION LEVEL REPEATABLE READ`);
  await holder.query(`SELECT pg_current_xact_id(), count(*) FROM dibs.queue`);
  await passThrough(url, count);
  return () => holder.end();
}

async function drain(url: string, count: number): Promise<DrainReport> {
  const task: DrainTask = { path: url, queue: QUEUE, count, warmUp: WARM_UP, ahead: 200 };
  await using drainer = await Helper.start(new URL("../helpers/drainer.ts", import.meta.url), task);
  return await drainer.next<DrainReport>();
}

// Each connection has told its counts by the time it is closed, or a second later.
const PAGES = `
  SELECT pg_stat_force_next_flush(), sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::int8 AS pages
  FROM pg_statio_user_tables WHERE relname = 'ready'`;

async function pagesOfLine(url: string): Promise<number> {
  return Number((await ask<{ pages: string }>(url, PAGES)).pages);
}

export async function ask<Row>(url: string, sql: string): Promise<Row> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows[0] as Row;
  } finally {
    await client.end();
  }
}
