import { Client } from "pg";
import { open } from "../../src/index.ts";
import { addTasks, type DrainReport, type DrainTask, QUEUE } from "../deep.ts";
import { Helper } from "../helper.ts";
import { servePostgres } from "../peers/postgres.ts";
import { AHEAD } from "./drain.ts";
import { type Bench, type Figure, pages, rate, type Scenario, times } from "../scenario.ts";

export const postgresDepth: Scenario = {
  name: "postgres-depth",
  about:
    "dibs on PostgreSQL: the tasks of `drain` from a store with many waiting, after many passed through, and that with a transaction held open all the while, each against one that is new, drained just before and just after; and the pages of the line that a task costs, dead rows included. --long: 2 million waiting, a million passed",
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

/** Prepares a store before it is drained; returns a function that undoes it. */
type Preparation = (url: string) => Promise<(() => Promise<void>) | undefined>;

async function compare(bench: Bench, server: string): Promise<Figure[]> {
  const drained = bench.size(50_000, 1_000);
  // Tasks of another queue that the process drains first.
  const warmUp = bench.size(5_000, 200);
  const [waiting, passed] = bench.settings.long
    ? [2_000_000, 1_000_000]
    : [bench.size(200_000, 5_000), bench.size(100_000, 4_000)];
  const cases: [label: string, prepare: Preparation][] = [
    [`${waiting} waiting`, (url) => addTo(url, waiting)],
    [`after ${passed}`, (url) => passThrough(url, passed)],
    [`after ${passed}, a transaction open`, (url) => passWhileHeld(url, passed)],
  ];
  let made = 0;
  const measure = async (prepare: Preparation): Promise<{ perSecond: number; perTask: number }> => {
    const url = await makeDatabase(server, `depth_${made++}`);
    const undo = await prepare(url);
    await addTo(url, drained);
    const before = await pagesOfLine(url);
    const { perSecond } = await drain(url, drained, warmUp);
    const perTask = ((await pagesOfLine(url)) - before) / (drained + warmUp);
    await undo?.();
    return { perSecond, perTask };
  };
  const drainNew = (): ReturnType<typeof measure> => measure(async () => undefined);
  // So that the first one does not also warm up the server.
  await drainNew();
  const figures: Figure[] = [];
  // The speed of the machine changes from minute to minute: each is compared with its neighbours.
  let former = await drainNew();
  for (const [label, prepare] of cases) {
    const { perSecond, perTask } = await measure(prepare);
    const next = await drainNew();
    const beside = (former.perSecond + next.perSecond) / 2;
    figures.push(
      rate(`new, beside ${label}`, beside),
      rate(label, perSecond),
      times(`${label}, against a new one`, perSecond / beside),
      pages(`${label}, pages a task`, perTask),
    );
    former = next;
  }
  return [pages("new, pages a task", former.perTask), ...figures];
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

/** Like a report or a forgotten console: from then on, deleted rows cannot be vacuumed. */
async function passWhileHeld(url: string, count: number): Promise<() => Promise<void>> {
  const holder = new Client({ connectionString: url });
  await holder.connect();
  await addTo(url, 1);
  await holder.query(`BEGIN ISOLATION LEVEL REPEATABLE READ`);
  await holder.query(`SELECT pg_current_xact_id(), count(*) FROM dibs.queue`);
  await passThrough(url, count);
  return () => holder.end();
}

async function drain(url: string, count: number, warmUp = 200): Promise<DrainReport> {
  const task: DrainTask = { path: url, queue: QUEUE, count, warmUp, ahead: AHEAD };
  await using drainer = await Helper.start(new URL("../helpers/drainer.ts", import.meta.url), task);
  return await drainer.next<DrainReport>();
}

// Each connection reports its counts when it is closed, or a second later.
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
