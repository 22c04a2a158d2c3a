import { fileURLToPath } from "node:url";
import { built } from "../built.ts";
import { Helper } from "../helper.ts";
import { inBatches, mean, median, payloads } from "../measure.ts";
import { serverFlags } from "../peers/dibs-server.ts";
import { freePort, startProgram } from "../peers/server.ts";
import { type Bench, type Figure, microseconds, rate, type Scenario, times } from "../scenario.ts";
import { type Dibs, open, type Queue } from "../../src/index.ts";
import type { Payload } from "../contender.ts";
import { addSteadily, drain, type Leg, leg, type Measure, steadyMs, STEADY } from "./readers.ts";

/** The store that the pages show, besides the traffic. */
const QUEUES = 2_000;
const TASKS = 1_000_000;
const BATCH = 5_000;
/** How often each number of pages is measured in a round, between two legs without pages. */
const LEGS = 3;
/** Two seconds: a drain begins with a burst of events, for less than a second. */
const DRAINED = 150_000;
const BUSY = "dashboard";
const PICTURE = `/v1/live?queue=${BUSY}`;
const OVERVIEW = "/v1/live?queues=true";

export interface PagesTask {
  url: string;
  /** Of each page's live feed. */
  paths: string[];
}

const VIEWS = [
  ["overview", [OVERVIEW]],
  ["picture", [PICTURE]],
  ["ten pages", Array.from({ length: 10 }, (_, at) => (at % 2 === 0 ? PICTURE : OVERVIEW))],
] as const satisfies [string, string[]][];

const ABOUT = `a server with ${QUEUES.toLocaleString("en")} queues and a million tasks, while pages of the dashboard read their live feed: one with all queues, one with the picture of the busy queue, and ten, half of each. Each leg with pages is compared with the legs without just before and after it; a share is the median of ${LEGS}`;

export const dashboard: Scenario = {
  name: "dashboard",
  about: `${STEADY.toLocaleString("en")} tasks/s added and handled at ${ABOUT}`,
  needs: "dibs",
  run: (bench) =>
    atServer(bench, `${STEADY} tasks/s`, (queue, from) => addSteadily(queue, steadyMs(bench), from)),
};

/** Apart from the other, so that each takes two minutes: what needs a quiet machine should not need it for long. */
export const dashboardDrain: Scenario = {
  name: "dashboard-drain",
  about: `a backlog drained as fast as it goes at ${ABOUT}`,
  needs: "dibs",
  run: (bench) => atServer(bench, "drain", (queue, from) => drain(queue, bench.size(DRAINED, 500), from)),
};

type MeasureQueue = (queue: Queue<Payload>, from: () => void) => Promise<number>;

async function atServer(bench: Bench, what: string, measure: MeasureQueue): Promise<Figure[]> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const flags = serverFlags(bench.path("dashboard"), port);
  const main = fileURLToPath(await built("src/cli/main.ts", bench.settings.cache));
  const { pid, stop } = await startProgram(process.execPath, [main, "serve", ...flags], port);
  try {
    await using dibs = await open(url);
    await fill(bench, dibs);
    const queue = dibs.queue<Payload>(BUSY);
    return await compare(what, (from) => measure(queue, from), url, pid);
  } finally {
    await stop();
  }
}

async function fill(bench: Bench, dibs: Dibs): Promise<void> {
  const queues = bench.size(QUEUES, 20);
  const handles = Array.from({ length: queues }, (_, at) => dibs.queue<Payload>(`quiet-${at}`));
  await inBatches(bench.size(TASKS, 2_000), BATCH, (first, length) =>
    handles[Math.floor(first / BATCH) % queues]!.addMany(payloads(length, first).map((data) => ({ data }))),
  );
  // Those that no batch has reached have a few, so that every row has figures.
  await Promise.all(handles.map((queue) => queue.addMany(payloads(2).map((data) => ({ data })))));
}

async function compare(what: string, measure: Measure, url: string, server: number): Promise<Figure[]> {
  const figures: Figure[] = [];
  // Not counted: the server and this process compile the code in it.
  await leg(measure, server, undefined);
  const alone = [await leg(measure, server, undefined)];
  for (const [view, paths] of VIEWS) {
    const beside: Leg[] = [];
    const shares: number[] = [];
    for (let n = 0; n < LEGS; n++) {
      const task: PagesTask = { url, paths };
      const helper = await Helper.start(new URL("../helpers/pages.ts", import.meta.url), task);
      beside.push(await leg(measure, server, helper.pid));
      await helper.kill();
      alone.push(await leg(measure, server, undefined));
      shares.push(beside.at(-1)!.rate / mean(alone.slice(-2).map((each) => each.rate)));
    }
    const label = `${what}, ${view}`;
    figures.push(rate(label, medianOf(beside, "rate")), times(`${label}: share`, median(shares)));
    figures.push(microseconds(`${label}: CPU of the server a task`, medianOf(beside, "server")));
  }
  figures.push(rate(`${what}, no page`, medianOf(alone, "rate")));
  figures.push(microseconds(`${what}, no page: CPU of the server a task`, medianOf(alone, "server")));
  return figures;
}

function medianOf(legs: readonly Leg[], what: keyof Leg): number {
  return median(legs.map((each) => each[what]));
}
