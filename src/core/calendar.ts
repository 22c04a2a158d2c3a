import { Cron } from "croner";
import { invalid } from "./errors.ts";
import { show } from "./show.ts";

/**
 * When a schedule fires: by the calendar of a time zone, or every so many milliseconds from a moment on.
 *
 * This is the one file of the core that stands on a package: cron and time zones are croner's.
 */
export type Timing = { cron: string; tz: string } | { every: number };

/** The moments of a timing. They are a rule of the timing alone: every process reckons the same ones. */
export interface FiringTimes {
  /** The first one later than `at`; null where there is none. */
  after: (at: number) => number | null;
  /** The last `count` up to and with `at`, the earliest first. */
  upTo: (at: number, count: number) => number[];
}

export const UTC = "UTC";
const LONGEST_PATTERN = 256;

/** `from`: when the timing began, which is what every interval is counted from. */
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
 * Around the change of the clocks, as cron users know it. A time of day that is skipped comes when the hour has been
 * skipped; one that is there twice comes the first time. What is repeated through the hours goes by the time that passes:
 * it is not made up for where an hour is skipped, and comes in both hours where one is doubled.
 */
function cronTimes(pattern: string, timezone: string): FiringTimes {
  const cron = parsed(pattern, timezone);
  return {
    after: (at) => cron.nextRun(new Date(at))?.getTime() ?? null,
    // Those before a moment are without that moment, and cron has whole seconds.
    upTo: (at, count) =>
      cron
        .previousRuns(count, new Date((Math.floor(at / SECOND_MS) + 1) * SECOND_MS))
        .map((date) => date.getTime())
        .toReversed(),
  };
}

/** A pattern takes longer to be read than to be asked: those of the schedules of a store are few. */
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
      // Said below, in words of ours.
    }
  }
  throw invalid(
    `${what} must be the name of a time zone, such as "Europe/London" or "UTC"; got ${show(tz)}.`,
  );
}

/** Also that it ever happens: the 30th of February would be waited for in vain. */
export function checkPattern(pattern: unknown, tz: string): string {
  if (typeof pattern !== "string" || pattern.length > LONGEST_PATTERN) throw badPattern(pattern);
  let first: Date | null;
  try {
    first = parsed(pattern, tz).nextRun(new Date(0));
  } catch (error) {
    throw badPattern(pattern, (error as Error).message.replace(/^CronPattern: /, ""));
  }
  if (first === null) throw invalid(`cron ${show(pattern)} never happens.`);
  return pattern;
}

function badPattern(pattern: unknown, reason?: string) {
  return invalid(
    `cron must be a pattern of five fields, minute hour day month weekday, or six with the seconds first, as in ` +
      `"0 3 * * *"; got ${show(pattern)}${reason === undefined ? "." : `: ${reason}`}`,
  );
}
