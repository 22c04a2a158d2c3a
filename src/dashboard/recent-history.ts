import { everyItem } from "../core/answer/every-item.ts";
import type { Port } from "../core/port.ts";
import { sleepUntil } from "../core/time/sleep.ts";
import {
  FLOW_SERIES,
  type FlowHistory,
  type History,
  HISTORY_SERIES,
  type HistorySeries,
} from "./contract.ts";
import { rateSample, type Sample } from "./history-sample.ts";
import type { Viewer } from "./viewer.ts";

/** The short charts have a value for each of these spans. The engines count flows in spans of the same length. */
export const RECENT_STEP_MS = 10_000;
/** A quarter of an hour: 90 values of 9 series, 3.2 kB for a queue. */
const POINTS = 90;
/** Queues that are recorded: at most 6.5 MB. Those above it have one value a minute. */
const MOST_QUEUES = 2_000;
/** Reading all queues takes at most this share of the time: with many queues, the values come less often. */
const LARGEST_SHARE = 0.01;

/** A value is used for the following steps too, up to a minute: its rates describe the last minute anyway. */
const STANDS_FOR = 6;

type Row = Record<HistorySeries, (number | null)[]>;

/**
 * The last quarter of an hour in steps of 10 s, in memory only, so that a short chart is finer than the minutes that
 * history.ts stores. Rates and means are those of the minute before each value.
 */
export class RecentHistory {
  readonly #port: Port;
  readonly #stopping = new AbortController();
  readonly #rings = new Map<string, Ring>();
  /** All queues together, however many there are. */
  readonly #all = new Ring();
  readonly #looping: Promise<void>;

  constructor(port: Port) {
    this.#port = port;
    this.#looping = this.#loop();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#looping;
  }

  /** The same span in steps of 10 s. What was not recorded here has the value of its minute. */
  refine(queue: string, coarse: Omit<History, "queue">, from: number, to: number): Omit<History, "queue"> {
    const ring = this.#rings.get(queue);
    if (!ring) return coarse;
    const first = Math.floor(from / RECENT_STEP_MS);
    // The step in progress has no value yet.
    const count = Math.floor(to / RECENT_STEP_MS) - first;
    const series = HISTORY_SERIES.map((name, at) => {
      const values = Array.from({ length: count }, (_, index) => {
        const step = first + index;
        const recorded = ring.latest(step);
        if (recorded !== undefined) return ring.value(at, recorded);
        const minute = Math.floor((step * RECENT_STEP_MS - coarse.from) / coarse.step);
        // The value of a minute describes its end: it says nothing about the time before the first step in it.
        const isBegun = minute === Math.floor((ring.first * RECENT_STEP_MS - coarse.from) / coarse.step);
        return isBegun ? null : (coarse.series[name][minute] ?? null);
      });
      return [name, values] as const;
    });
    return { from: first * RECENT_STEP_MS, step: RECENT_STEP_MS, series: Object.fromEntries(series) as Row };
  }

  /** The sums over the queues that the viewer may read. */
  flow(viewer: Pick<Viewer, "readsAll" | "reads">): FlowHistory {
    const first = Math.floor(this.#port.clock.read().wall / RECENT_STEP_MS) - POINTS;
    const rings = viewer.readsAll
      ? [this.#all]
      : [...this.#rings].filter(([name]) => viewer.reads(name)).map(([, ring]) => ring);
    const series = FLOW_SERIES.map((name) => {
      const at = HISTORY_SERIES.indexOf(name);
      const values = Array.from({ length: POINTS }, (_, index) => sumOf(rings, at, first + index));
      return [name, values] as const;
    });
    return {
      from: first * RECENT_STEP_MS,
      step: RECENT_STEP_MS,
      series: Object.fromEntries(series) as FlowHistory["series"],
    };
  }

  /** Whether `points` values of this span are finer than a minute, and this object has them. */
  covers({ from, to, points }: { from: number; to: number; points: number }, now: number): boolean {
    return from >= now - (POINTS + 1) * RECENT_STEP_MS && points >= (to - from) / RECENT_STEP_MS;
  }

  async #loop(): Promise<void> {
    const { signal } = this.#stopping;
    const { clock } = this.#port;
    while (!signal.aborted) {
      const { wall, elapsed: began } = clock.read();
      const step = Math.floor(wall / RECENT_STEP_MS);
      try {
        await this.#sample(step);
      } catch {
        // history.ts reads the same, and logs why it could not.
      }
      const { wall: now, elapsed } = clock.read();
      const rest = (elapsed - began) / LARGEST_SHARE;
      const untilNext = (step + 1) * RECENT_STEP_MS - now;
      await sleepUntil(clock, Math.max(untilNext, rest, 1), signal);
    }
  }

  async #sample(step: number): Promise<void> {
    const queues = await everyItem((page) => this.#port.queues({ ...page, stats: true }));
    const names = new Set(queues.map(({ name }) => name));
    for (const name of this.#rings.keys()) if (!names.has(name)) this.#rings.delete(name);
    const samples = queues.map(({ stats }) => rateSample(stats!));
    // The value is about the step that has just ended.
    if (queues.length > 0) this.#all.add(step - 1, sumSamples(samples));
    for (const [at, { name }] of queues.entries()) {
      let ring = this.#rings.get(name);
      if (!ring) {
        if (this.#rings.size >= MOST_QUEUES) continue;
        this.#rings.set(name, (ring = new Ring()));
      }
      ring.add(step - 1, samples[at]!);
    }
  }
}

/** Only the series whose sum means something have one. */
function sumSamples(samples: readonly Sample[]): Sample {
  const none = Object.fromEntries(HISTORY_SERIES.map((name) => [name, null])) as Sample;
  const sums = FLOW_SERIES.map((name) => [name, samples.reduce((sum, each) => sum + (each[name] ?? 0), 0)]);
  return { ...none, ...Object.fromEntries(sums) };
}

/** Null if none of them has a value for this step. */
function sumOf(rings: readonly Ring[], series: number, step: number): number | null {
  let sum: number | null = null;
  for (const ring of rings) {
    const recorded = ring.latest(step);
    const value = recorded === undefined ? null : ring.value(series, recorded);
    if (value !== null) sum = (sum ?? 0) + value;
  }
  return sum;
}

/** The last values of one queue, series by series. NaN means null. */
class Ring {
  readonly #values = new Float32Array(POINTS * HISTORY_SERIES.length);
  /** Which step each place holds. */
  readonly #steps = new Float64Array(POINTS).fill(-1);
  /** The first step that was recorded. */
  first = Number.POSITIVE_INFINITY;

  add(step: number, sample: Record<HistorySeries, number | null>): void {
    this.first = Math.min(this.first, step);
    const place = step % POINTS;
    this.#steps[place] = step;
    for (const [at, name] of HISTORY_SERIES.entries())
      this.#values[at * POINTS + place] = sample[name] ?? Number.NaN;
  }

  /** The step whose value is used for the given one, because a busy server may skip a few. */
  latest(step: number): number | undefined {
    for (let each = step; each > step - STANDS_FOR; each--)
      if (this.#steps[each % POINTS] === each) return each;
    return undefined;
  }

  value(series: number, step: number): number | null {
    const value = this.#values[series * POINTS + (step % POINTS)]!;
    return Number.isNaN(value) ? null : value;
  }
}
