import { Cron } from "croner";
import { invalid } from "../errors/errors.ts";
import { show } from "../errors/show.ts";

/**
 * When a schedule fires: at the times of a cron pattern in a time zone, or at a fixed interval from a start time.
 * Schedules (core/time/schedule.ts) and windows (core/queue/window.ts) use it.
 *
 * This is the only file in core that imports a package: croner does cron and time zones.
 */
export type Timing = { cron: string; tz: string } | { every: number };

/** The firing times of a timing. They depend only on the timing, so every process computes the same ones. */
export interface FiringTimes {
  /** The first firing time later than `at`; null if there is none. */
  after: (at: number) => number | null;
  /** The last `count` firing times up to and including `at`, the earliest first. */
  upTo: (at: number, count: number) => number[];
}

export const UTC = "UTC";
const LONGEST_PATTERN = 256;

/** `from`: when the timing began. Intervals are counted from it. */
export function firingTimesOf(timing: Timing, from: number): FiringTimes {
  return "cron" in timing ? cronTimes(timing.cron, timing.tz) : intervalTimes(timing.every, from);
}

function intervalTimes(every: number, from: number): FiringTimes {
  const nth = (n: number): number => from + n * every;
  const passed = (at: number): number => Math.max(0, Math.floor((at - from) / every));
  return {
    after: (at) => nth(passed(at) + 1),
    upTo: (at, count) => {
      const last = passed(at);
      const first = Math.max(1, last - count + 1);
      return Array.from({ length: Math.max(0, last - first + 1) }, (_, n) => nth(first + n));
    },
  };
}

const SECOND_MS = 1_000;

/**
 * Daylight saving time works as in cron. A time of day that is skipped fires right after the skipped hour. A time of
 * day that occurs twice fires the first time. A pattern that repeats within the day follows elapsed time: it does not
 * make up for a skipped hour, and it fires in both copies of a doubled hour.
 */
function cronTimes(pattern: string, timezone: string): FiringTimes {
  const cron = parsed(pattern, timezone);
  return {
    after: (at) => cron.nextRun(new Date(at))?.getTime() ?? null,
    // previousRuns excludes its own time, and cron has whole seconds: so ask from the next second.
    upTo: (at, count) =>
      cron
        .previousRuns(count, new Date((Math.floor(at / SECOND_MS) + 1) * SECOND_MS))
        .map((date) => date.getTime())
        .toReversed(),
  };
}

/** Parsing a pattern takes longer than asking it, and a store has few patterns. */
const known = new Map<string, Cron>();
const MOST_KNOWN = 1_000;

function parsed(pattern: string, timezone: string): Cron {
  const name = `${timezone} ${pattern}`;
  let cron = known.get(name);
  if (!cron) {
    cron = new Cron(pattern, { timezone, mode: "5-or-6-parts" });
    if (known.size >= MOST_KNOWN) known.clear();
    known.set(name, cron);
  }
  return cron;
}

export function checkTimeZone(tz: unknown, what = "tz"): string {
  if (typeof tz === "string" && tz.length > 0) {
    try {
      if (Intl.DateTimeFormat("en", { timeZone: tz })) return tz;
    } catch {
      // The error below explains it better.
    }
  }
  throw invalid(
    `${what} must be the name of a time zone, such as "Europe/London" or "UTC"; got ${show(tz)}.`,
  );
}

/** Also refuses a pattern that never fires, such as February 30. */
export function checkPattern(pattern: unknown, tz: string): string {
  if (typeof pattern !== "string" || pattern.length > LONGEST_PATTERN) throw badPattern(pattern);
  let first: Date | null;
  try {
    first = parsed(pattern, tz).nextRun(new Date(0));
  } catch (error) {
    throw badPattern(pattern, (error as Error).message.replace(/^CronPattern: /, ""));
  }
  if (first === null)
    throw invalid(`cron ${show(pattern)} never fires: no date matches it. Change the day or the month.`);
  return pattern;
}

function badPattern(pattern: unknown, reason?: string) {
  return invalid(
    `cron must be a pattern of five fields, minute hour day month weekday, or six with the seconds first, as in ` +
      `"0 3 * * *"; got ${show(pattern)}${reason === undefined ? "." : `: ${reason}`}`,
  );
}
