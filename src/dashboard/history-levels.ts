import { HISTORY_SERIES, type HistorySeries } from "./contract.ts";
import { pack, unpack } from "./history-codec.ts";
import type { Sample } from "./history-sample.ts";

/**
 * What is stored of one queue: its samples at several resolutions, each for as long as its charts need it. Pure:
 * history.ts stores it.
 *
 *   492 points × 9 series × at most 2 bytes, as base64: at most 11.8 kB for a queue, whatever happens in it.
 */
export const LEVELS = [
  /** Three hours, minute by minute. */
  { step: 60_000, points: 180 },
  /** A day. */
  { step: 600_000, points: 144 },
  /** A week. */
  { step: 3_600_000, points: 168 },
] as const;

const FLOWS: ReadonlySet<HistorySeries> = new Set(["added", "done", "failed"]);
const MEANS: ReadonlySet<HistorySeries> = new Set(["wait", "service"]);

interface Level {
  /** The number of the last point: its time divided by the step. */
  last: number;
  series: Record<HistorySeries, (number | null)[]>;
}

export interface Levels {
  levels: Level[];
}

/** As it is stored. */
interface PackedLevel {
  last: number;
  series: Record<string, string>;
}

export function noLevels(): Levels {
  const empty = (): Level["series"] => Object.fromEntries(HISTORY_SERIES.map((name) => [name, []])) as never;
  return { levels: LEVELS.map(() => ({ last: -1, series: empty() })) };
}

/**
 * @param minute since 1970
 * @param sample flows are counts of the minute, the others are values at its end
 */
export function addSample({ levels }: Levels, minute: number, sample: Sample): void {
  for (const [at, { step, points }] of LEVELS.entries()) {
    const level = levels[at]!;
    const point = Math.floor((minute * LEVELS[0].step) / step);
    if (level.last >= 0 && point < level.last) continue;
    const skipped = level.last < 0 ? 0 : Math.min(point - level.last - 1, points);
    for (const name of HISTORY_SERIES) {
      const values = level.series[name];
      if (point === level.last) values.push(merge(name, values.pop()!, sample[name]));
      else {
        for (let missing = 0; missing < skipped; missing++) values.push(null);
        values.push(sample[name]);
      }
      if (values.length > points) values.splice(0, values.length - points);
    }
    level.last = point;
  }
}

function merge(name: HistorySeries, before: number | null, value: number | null): number | null {
  if (before === null || value === null) return value ?? before;
  if (FLOWS.has(name)) return before + value;
  return MEANS.has(name) ? (before + value) / 2 : value;
}

export function packLevels({ levels }: Levels): { levels: PackedLevel[] } {
  return {
    levels: levels.map(({ last, series }) => ({
      last,
      series: Object.fromEntries(HISTORY_SERIES.map((name) => [name, pack(series[name])])),
    })),
  };
}

/** A document of another version has other levels: what is missing is empty. */
export function unpackLevels(stored: { levels?: PackedLevel[] } | undefined): Levels {
  const { levels } = noLevels();
  for (const [at, level] of levels.entries()) {
    const packed = stored?.levels?.[at];
    if (!packed) continue;
    level.last = packed.last;
    for (const name of HISTORY_SERIES) level.series[name] = unpack(packed.series[name] ?? "");
  }
  return { levels };
}

/** The values of a series between two times, from the finest level that reaches back far enough. */
export function readLevels(
  { levels }: Levels,
  from: number,
  to: number,
  points: number,
  now: number,
): { from: number; step: number; series: Record<HistorySeries, (number | null)[]> } {
  const fine = LEVELS.findIndex(({ step, points: most }) => from >= now - step * most);
  const at = fine < 0 ? LEVELS.length - 1 : fine;
  const { step } = LEVELS[at]!;
  // Several points of the level become one: the step stays a multiple, so that each is complete.
  const each = Math.max(1, Math.ceil((to - from) / step / points));
  const first = Math.floor(from / step);
  const count = Math.max(1, Math.ceil((to / step - first) / each));
  const series = HISTORY_SERIES.map((name) => {
    const values = Array.from({ length: count }, (_, index) =>
      merged(levels[at]!, name, first + index * each, each, step),
    );
    return [name, values] as const;
  });
  return { from: first * step, step: step * each, series: Object.fromEntries(series) as never };
}

function merged(
  level: Level,
  name: HistorySeries,
  first: number,
  count: number,
  step: number,
): number | null {
  const values = level.series[name];
  const begin = level.last - values.length + 1;
  let value: number | null = null;
  let known = 0;
  for (let point = first; point < first + count; point++) {
    const next = values[point - begin] ?? null;
    if (next === null) continue;
    known++;
    value = merge(name, value, next);
  }
  // Of the time that was recorded.
  return value !== null && FLOWS.has(name) ? (value * 1_000) / (step * known) : value;
}
