import { fileURLToPath } from "node:url";
import { built } from "../built.ts";
import { Helper } from "../helper.ts";
import { setTimeout as sleep } from "node:timers/promises";
import { inBatches, mean, payloads } from "../measure.ts";
import { serverFlags } from "../peers/dibs-server.ts";
import { freePort, startProgram } from "../peers/server.ts";
import { type Bench, type Figure, rate, type Scenario, times } from "../scenario.ts";
import { type Dibs, type DibsEvent, open, type Queue } from "../../src/index.ts";
import type { Payload } from "../contender.ts";

const BATCH = 500;
const READING = 10;
const SILENT = 100;
/** Each task emits three events. */
const STEADY = 5_000;
const EVENTS_OF_A_TASK = 3;

export interface ReadersTask {
  url: string;
  count: number;
  /** They read everything, or nothing. */
  kind: "reading" | "silent";
}

export const readers: Scenario = {
  name: "readers",
  about: `tasks added in batches of ${BATCH}, four under way, and drained, with nobody who follows the events, with ${READING} who do, and with ${SILENT} who listen and read nothing; each against rounds without readers just before and after it, in process and at a server that is followed over HTTP; and ${STEADY.toLocaleString("en")} tasks/s added and handled with ${READING} readers: what part of them passes, and what part of their events a reader in the process is shown`,
  needs: "dibs",
  warmUp: true,
  async run(bench) {
    return [...(await inProcess(bench)), ...(await atServer(bench))];
  },
};

/** Counted by the readers of this process. */
let shown = 0;

async function inProcess(bench: Bench): Promise<Figure[]> {
  await using dibs = await open(bench.path(`readers-${bench.settings.warmUp}`));
  const figures = await compare(bench, "in process", dibs, async (kind, count) => {
    shown = 0;
    const stop = new AbortController();
    const all = Array.from({ length: count }, () => dibs.events({ signal: stop.signal }));
    if (kind === "reading") for (const events of all) void readAll(events);
    return async () => stop.abort();
  });
  const expected = READING * EVENTS_OF_A_TASK * STEADY * (steadyMs(bench) / 1_000);
  const share = Math.min(1, shown / expected);
  return [...figures, times(`in process, ${STEADY} tasks/s: events shown`, share)];
}

async function readAll(events: AsyncIterable<DibsEvent>): Promise<void> {
  for await (const { type } of events) if (type.startsWith("task.")) shown++;
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

/** Each kind of readers between two rounds without any. The steady one comes last. */
async function compare(
  bench: Bench,
  where: string,
  dibs: Dibs,
  startReaders: StartReaders,
): Promise<Figure[]> {
  const queue = dibs.queue<Payload>("readers");
  // Never emptied: purging so many tasks takes longer than adding them.
  const full = dibs.queue<Payload>("readers-full");
  const both = [
    ["reading", READING],
    ["silent", SILENT],
  ] as const;
  const figures: Figure[] = [];
  for (const [what, measure, kinds] of [
    ["adds", () => addRate(full, bench.size(3_000, 100)), both],
    ["drain", () => drainOf(queue, bench.size(40_000, 500)), both],
    [`${STEADY} tasks/s`, () => steadyRate(queue, steadyMs(bench)), both.slice(0, 1)],
  ] as const) {
    await measure();
    const alone = [await measure()];
    for (const [kind, count] of kinds) {
      const stopReaders = await startReaders(kind, count);
      const beside = await measure();
      await stopReaders();
      alone.push(await measure());
      const label = `${where}, ${what}, ${count} ${kind} readers`;
      figures.push(rate(label, beside), times(`${label}: share`, beside / mean(alone.slice(-2))));
    }
    figures.push(rate(`${where}, ${what}, no readers`, mean(alone)));
  }
  return figures;
}

const steadyMs = (bench: Bench): number => bench.size(3_000, 300);

/** Tasks added a second, over this time: the first thousands of events cost more than later ones. */
async function addRate(queue: Queue<Payload>, forMs: number): Promise<number> {
  const batch = payloads(BATCH).map((data) => ({ data }));
  const start = performance.now();
  let added = 0;
  const addOn = async (): Promise<void> => {
    for (; performance.now() - start < forMs; added += BATCH) await queue.addMany(batch);
  };
  await Promise.all([addOn(), addOn(), addOn(), addOn()]);
  return (added * 1_000) / (performance.now() - start);
}

async function drainOf(queue: Queue<Payload>, count: number): Promise<number> {
  await inBatches(count, BATCH, (first, length) =>
    queue.addMany(payloads(length, first).map((data) => ({ data }))),
  );
  const start = performance.now();
  await handle(queue, count);
  return (count * 1_000) / (performance.now() - start);
}

/** Adds at a pace, and handles what was added. */
async function steadyRate(queue: Queue<Payload>, forMs: number): Promise<number> {
  const count = (forMs * STEADY) / 1_000;
  const start = performance.now();
  const handled = handle(queue, count);
  for (let added = 0; added < count; await sleep(5)) {
    const due = Math.min(count, Math.floor(((performance.now() - start) * STEADY) / 1_000));
    if (due > added) await queue.addMany(payloads(due - added).map((data) => ({ data })));
    added = Math.max(added, due);
  }
  await handled;
  // So that readers have time to get the last event.
  const taken = performance.now() - start;
  await sleep(200);
  return (count * 1_000) / taken;
}

async function handle(queue: Queue<Payload>, count: number): Promise<void> {
  const all = Promise.withResolvers<void>();
  let handled = 0;
  const worker = queue.work(() => void (++handled === count && all.resolve()), {
    ...{ concurrency: 100, prefetch: 800 },
  });
  await all.promise;
  await worker.stop();
}
