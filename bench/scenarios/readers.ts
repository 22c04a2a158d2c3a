import { fileURLToPath } from "node:url";
import { built } from "../built.ts";
import { Helper } from "../helper.ts";
import { inFlight, payloads, seconds } from "../measure.ts";
import { serverFlags } from "../peers/dibs-server.ts";
import { freePort, startProgram } from "../peers/server.ts";
import { type Bench, type Figure, rate, type Scenario, times } from "../scenario.ts";
import { type Dibs, open } from "../../src/index.ts";

const BATCH = 500;
const READING = 10;
const SILENT = 100;

export interface ReadersTask {
  url: string;
  count: number;
  /** They read all they are sent, or nothing. */
  kind: "reading" | "silent";
}

export const readers: Scenario = {
  name: "readers",
  about: `tasks added in batches of ${BATCH}, four under way, with nobody who follows the events, with ${READING} who do, and with ${SILENT} who listen and read nothing; each against rounds without readers just before and after it, in process and at a server that is followed over HTTP`,
  needs: "dibs",
  warmUp: true,
  async run(bench) {
    return [...(await inProcess(bench)), ...(await atServer(bench))];
  },
};

async function inProcess(bench: Bench): Promise<Figure[]> {
  await using dibs = await open(bench.path(`readers-${bench.settings.warmUp}`));
  return await compare(bench, "in process", dibs, async (kind, count) => {
    const stop = new AbortController();
    const all = Array.from({ length: count }, () => dibs.events({ signal: stop.signal }));
    if (kind === "reading") for (const events of all) void readAll(events);
    return async () => stop.abort();
  });
}

async function readAll(events: AsyncIterable<unknown>): Promise<void> {
  for await (const event of events) void event;
}

async function atServer(bench: Bench): Promise<Figure[]> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const flags = serverFlags(bench.path(`readers-server-${bench.settings.warmUp}`), port);
  const main = fileURLToPath(await built("src/cli/main.ts", bench.settings.cache));
  const { stop } = await startProgram(process.execPath, [main, "serve", ...flags], port);
  try {
    await using dibs = await open(url);
    return await compare(bench, "server", dibs, async (kind, count) => {
      const task: ReadersTask = { url, count, kind };
      const helper = await Helper.start(new URL("../helpers/readers.ts", import.meta.url), task);
      return () => helper.kill();
    });
  } finally {
    await stop();
  }
}

type StartReaders = (kind: ReadersTask["kind"], count: number) => Promise<() => Promise<void>>;

/** Each kind of readers between two rounds without any. */
async function compare(
  bench: Bench,
  where: string,
  dibs: Dibs,
  startReaders: StartReaders,
): Promise<Figure[]> {
  const queue = dibs.queue("readers");
  const batch = payloads(BATCH).map((data) => ({ data }));
  const batches = bench.size(200, 4);
  const measure = async (): Promise<number> => {
    const taken = await seconds(() => inFlight(batches, 4, () => queue.addMany(batch)));
    await queue.purge();
    return (batches * BATCH) / taken;
  };
  await measure();
  const alone = [await measure()];
  const figures: Figure[] = [];
  for (const [kind, count] of [
    ["reading", READING],
    ["silent", SILENT],
  ] as const) {
    const stopReaders = await startReaders(kind, count);
    const beside = await measure();
    await stopReaders();
    alone.push(await measure());
    const label = `${where}, ${count} ${kind} readers`;
    figures.push(rate(label, beside), times(`${label}: share`, beside / mean(alone.slice(-2))));
  }
  return [rate(`${where}, no readers`, mean(alone)), ...figures];
}

function mean(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
