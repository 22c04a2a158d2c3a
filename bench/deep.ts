import { type Dibs, open } from "../src/index.ts";
import { built } from "./built.ts";
import { Helper } from "./helper.ts";
import { inBatches, payload } from "./measure.ts";
import { type Bench, type Figure, megabytes, rate, times } from "./scenario.ts";

/** The queue of the tasks that are drained. */
export const QUEUE = "deep";
/** The most that addMany takes. */
const BATCH = 10_000;

export interface DrainTask {
  path: string;
  queue: string;
  count: number;
  /** Tasks of another queue that are drained before the measurement. */
  warmUp: number;
  ahead: number;
}

export interface DrainReport {
  perSecond: number;
  megabytes: number;
}

/** A store with many tasks. */
export interface Depth {
  /** For people: "2 million waiting". */
  label: string;
  make(dibs: Dibs): Promise<void>;
}

/** Drains the same number of tasks from each store, and compares each with the first. */
export async function compareDepths(
  bench: Bench,
  name: string,
  drained: number,
  depths: Depth[],
): Promise<Figure[]> {
  const figures: Figure[] = [];
  let first: number | undefined;
  for (const [i, depth] of depths.entries()) {
    const { label } = depth;
    const path = await bench.prepared(`${name}-${i}`, (path) => makeStore(path, (dibs) => depth.make(dibs)));
    const report = await drainIn(bench, path, drained);
    figures.push(rate(label, report.perSecond), megabytes(`${label}, memory`, report.megabytes));
    if (first !== undefined) figures.push(times(`${label}, against the first`, report.perSecond / first));
    first ??= report.perSecond;
  }
  return figures;
}

/** Drains the same number of tasks from a queue with few other tasks, and from one with many. */
export function compareBeside(
  bench: Bench,
  name: string,
  depths: readonly { label: string; count: number }[],
  fill: (dibs: Dibs, count: number) => Promise<void>,
): Promise<Figure[]> {
  const drained = bench.size(20_000, 1_000);
  return compareDepths(
    bench,
    name,
    drained,
    depths.map(({ label, count }) => ({
      label,
      async make(dibs) {
        await fill(dibs, count);
        await addTasks(dibs, drained);
      },
    })),
  );
}

export async function makeStore(path: string, make: (dibs: Dibs) => Promise<void>): Promise<void> {
  await using dibs = await open(path);
  await make(dibs);
}

/** Adds `count` tasks; `options` may return different options for each. */
export function addTasks(
  dibs: Dibs,
  count: number,
  options: (n: number) => { groupKey?: string; delay?: "1d" } = () => ({}),
): Promise<void> {
  const queue = dibs.queue(QUEUE);
  return inBatches(count, BATCH, (first, length) =>
    queue.addMany(Array.from({ length }, (_, i) => ({ data: payload(first + i), ...options(first + i) }))),
  );
}

async function drainIn(bench: Bench, path: string, count: number): Promise<DrainReport> {
  const task: DrainTask = { path, queue: QUEUE, count, warmUp: Math.ceil(count / 4), ahead: 200 };
  await using drainer = await Helper.start(
    await built("bench/helpers/drainer.ts", bench.settings.cache),
    task,
  );
  return await drainer.next<DrainReport>();
}
