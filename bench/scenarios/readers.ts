import { fileURLToPath } from "node:url";
import { built } from "../built.ts";
import { Helper } from "../helper.ts";
import { setTimeout as sleep } from "node:timers/promises";
import { inBatches, mean, median, payloads } from "../measure.ts";
import { serverFlags } from "../peers/dibs-server.ts";
import { freePort, startProgram } from "../peers/server.ts";
import { type Bench, type Figure, microseconds, rate, type Scenario, times } from "../scenario.ts";
import { usageOf } from "../usage.ts";
import { type Dibs, type DibsEvent, open, type Queue } from "../../src/index.ts";
import type { Payload } from "../contender.ts";

const BATCH = 500;
/** A drain begins with a burst of events, for less than a second: it has to last longer than that. */
const DRAINED = 200_000;
const READING = 10;
const SILENT = 100;
/** Each task emits three events. */
export const STEADY = 5_000;
const EVENTS_OF_A_TASK = 3;

export interface ReadersTask {
  url: string;
  count: number;
  /** They read everything, or nothing. */
  kind: "reading" | "silent";
}

export const readers: Scenario = {
  name: "readers",
  about: `tasks added in batches of ${BATCH}, four in progress, and drained, with no readers of the events, with ${READING}, and with ${SILENT} that listen and read nothing; in process, and at a server whose events are read over HTTP. Each leg with readers is compared with the legs without just before and after it. CPU is that of the server and of the process that has all readers, which discards what it reads. And ${STEADY.toLocaleString("en")} tasks/s added and handled with ${READING} readers: the share of them that passes, and the share of their events that a reader in the process gets`,
  needs: "dibs",
  async run(bench) {
    return [...(await inProcess(bench)), ...(await atServer(bench))];
  },
};

/** Counted by the readers of this process. */
let shown = 0;

async function inProcess(bench: Bench): Promise<Figure[]> {
  await using dibs = await open(bench.path("readers"));
  const figures = await compare(bench, "in process", dibs, async (kind, count) => {
    shown = 0;
    const stop = new AbortController();
    const all = Array.from({ length: count }, () => dibs.events({ signal: stop.signal }));
    if (kind === "reading") for (const events of all) void readAll(events);
    return { stop: async () => stop.abort() };
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
  const flags = serverFlags(bench.path("readers-server"), port);
  const main = fileURLToPath(await built("src/cli/main.ts", bench.settings.cache));
  const { pid, stop } = await startProgram(process.execPath, [main, "serve", ...flags], port);
  const startReaders: StartReaders = async (kind, count) => {
    const task: ReadersTask = { url, count, kind };
    const helper = await Helper.start(new URL("../helpers/readers.ts", import.meta.url), task);
    return { pid: helper.pid, stop: () => helper.kill() };
  };
  try {
    await using dibs = await open(url);
    return await compare(bench, "server", dibs, startReaders, pid);
  } finally {
    await stop();
  }
}

interface Readers {
  /** Of the process that has them, where that is another one. */
  pid?: number;
  stop: () => Promise<void>;
}

type StartReaders = (kind: ReadersTask["kind"], count: number) => Promise<Readers>;

/** What one leg took. */
export interface Leg {
  /** Tasks a second. */
  rate: number;
  /** CPU in microseconds a task. */
  server: number;
  readers: number;
}

/**
 * Each kind of readers between two legs without any, once: rounds repeat it, because single legs differ by a fifth on a
 * quiet machine. The steady one comes last.
 */
async function compare(
  bench: Bench,
  where: string,
  dibs: Dibs,
  startReaders: StartReaders,
  server?: number,
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
    ["adds", (from) => addTasks(full, bench.size(1_500, 100), from), both],
    ["drain", (from) => drain(queue, bench.size(DRAINED, 500), from), both],
    [`${STEADY} tasks/s`, (from) => addSteadily(queue, steadyMs(bench), from), both.slice(0, 1)],
  ] satisfies [string, Measure, readonly (typeof both)[number][]][]) {
    // Not counted: the server and this process compile the code in it.
    await leg(measure, server, undefined);
    const alone = [await leg(measure, server, undefined)];
    for (const [kind, count] of kinds) {
      const { pid, stop } = await startReaders(kind, count);
      const beside = await leg(measure, server, pid);
      // So that readers have time to see the last events.
      await sleep(200);
      await stop();
      alone.push(await leg(measure, server, undefined));
      const label = `${where}, ${what}, ${count} ${kind} readers`;
      const share = beside.rate / mean(alone.slice(-2).map((each) => each.rate));
      figures.push(rate(label, beside.rate), times(`${label}: share`, share));
      if (server === undefined || what !== "drain") continue;
      figures.push(microseconds(`${label}: CPU of the server a task`, beside.server));
      figures.push(microseconds(`${label}: CPU of the readers a task`, beside.readers));
    }
    figures.push(rate(`${where}, ${what}, no readers`, medianOf(alone, "rate")));
    if (server === undefined || what !== "drain") continue;
    figures.push(
      microseconds(`${where}, ${what}, no readers: CPU of the server a task`, medianOf(alone, "server")),
    );
  }
  return figures;
}

function medianOf(legs: readonly Leg[], what: keyof Leg): number {
  return median(legs.map((each) => each[what]));
}

/** Calls `from` when what counts begins, and returns how many tasks there were. */
export type Measure = (from: () => void) => Promise<number>;

export async function leg(
  measure: Measure,
  server: number | undefined,
  readersPid: number | undefined,
): Promise<Leg> {
  const cpu = (pid: number | undefined): number => (pid === undefined ? 0 : usageOf(pid).cpuMs);
  let before = { at: 0, server: 0, readers: 0 };
  const now = () => ({ at: performance.now(), server: cpu(server), readers: cpu(readersPid) });
  const count = await measure(() => (before = now()));
  const after = now();
  return {
    rate: (count * 1_000) / (after.at - before.at),
    server: ((after.server - before.server) * 1_000) / count,
    readers: ((after.readers - before.readers) * 1_000) / count,
  };
}

export const steadyMs = (bench: Bench): number => bench.size(3_000, 300);

/** Adds for so long: the first thousands of events cost more than those after them. */
async function addTasks(queue: Queue<Payload>, forMs: number, from: () => void): Promise<number> {
  const batch = payloads(BATCH).map((data) => ({ data }));
  from();
  const start = performance.now();
  let added = 0;
  const addOn = async (): Promise<void> => {
    for (; performance.now() - start < forMs; added += BATCH) await queue.addMany(batch);
  };
  await Promise.all([addOn(), addOn(), addOn(), addOn()]);
  return added;
}

export async function drain(queue: Queue<Payload>, count: number, from: () => void): Promise<number> {
  await inBatches(count, BATCH, (first, length) =>
    queue.addMany(payloads(length, first).map((data) => ({ data }))),
  );
  // The adds have used up the allowance of events. After this pause readers are sent as much as they ever are.
  await sleep(1_500);
  from();
  await handle(queue, count);
  return count;
}

/** Adds at a pace, and handles what was added. */
export async function addSteadily(queue: Queue<Payload>, forMs: number, from: () => void): Promise<number> {
  const count = (forMs * STEADY) / 1_000;
  from();
  const start = performance.now();
  const handled = handle(queue, count);
  for (let added = 0; added < count; await sleep(5)) {
    const due = Math.min(count, Math.floor(((performance.now() - start) * STEADY) / 1_000));
    if (due > added) await queue.addMany(payloads(due - added).map((data) => ({ data })));
    added = Math.max(added, due);
  }
  await handled;
  return count;
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
