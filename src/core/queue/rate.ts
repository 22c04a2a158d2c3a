import { type Duration, parseDuration } from "../time/duration.ts";
import { invalid } from "../errors/errors.ts";
import { checkBoolean, checkNames, checkNumber, checkText } from "../input/options.ts";
import { show } from "../errors/show.ts";

/**
 * How many tasks may start in a span of time. Spans are fixed windows on the engine's clock, so that a limit needs only
 * two numbers however many tasks start. Up to twice `max` may start around a boundary. A paced limit spreads the starts
 * instead. The engines store the meters.
 */
export interface RateLimit {
  max: number;
  /** Milliseconds. */
  per: number;
  /** After each start, wait for its share of `per`, instead of starting all at the beginning of the span. */
  pace: boolean;
  /** Count the cost of a task in this unit; null: count each task once. */
  unit: string | null;
}

export interface RateLimitOptions {
  max: number;
  per: Duration;
  pace?: boolean;
  unit?: string | null;
}

/**
 * What one limit has counted. For a window: when it began, and how much of it is used. If paced: when the next task may
 * start.
 */
export type Tally = [at: number, used: number];

/**
 * The tallies of several limits, by the name of the limit. If the list of limits changes, each limit that stays keeps
 * its tally. `max` is not part of the name.
 */
export type Meter = Readonly<Record<string, Tally>>;

export const NO_METER: Meter = {};

const UNSEEN: Tally = [0, 0];
/** A paced start that is late by at most this does not delay the next ones. A longer delay does. */
const CATCH_UP_MS = 50;
const MOST_LIMITS = 8;
/** A longer span is a budget, not a rate: it could be used up for days, and the queue would look stuck. */
const LONGEST_SPAN_MS = 31 * 86_400_000;

const FEWER = "For fewer than one, make `per` longer; to start none for a while, pause the queue.";

function nameOf({ per, pace, unit }: RateLimit): string {
  return `${pace ? "pace" : "span"} ${per} ${unit ?? ""}`;
}

function tallyOf(limit: RateLimit, meter: Meter): Tally {
  return meter[nameOf(limit)] ?? UNSEEN;
}

/** When the current span of this limit began, as far as the meter knows; 0: unknown. */
export function beganAt(limit: RateLimit, meter: Meter): number {
  return limit.pace ? 0 : tallyOf(limit, meter)[0];
}

export function isEmpty(meter: Meter): boolean {
  return Object.keys(meter).length === 0;
}

/**
 * The earliest time at which a task of this cost may start. A task that costs more than a whole window starts as the
 * only one in it.
 */
export function earliestStart(limits: readonly RateLimit[], meter: Meter, cost: number, now: number): number {
  let opens = now;
  for (const limit of limits) {
    const tally = tallyOf(limit, meter);
    if (limit.pace) {
      opens = Math.max(opens, Math.ceil(tally[0]));
      continue;
    }
    const [began, used] = windowAt(limit, tally, now);
    if (used > 0 && used + amountOf(limit, cost) > limit.max) opens = Math.max(opens, began + limit.per);
  }
  return opens;
}

/** The most tasks that may start now. Their costs may allow fewer. */
export function roomFor(limits: readonly RateLimit[], meter: Meter, now: number): number {
  let room = Number.POSITIVE_INFINITY;
  for (const limit of limits) {
    if (limit.unit !== null) continue;
    const tally = tallyOf(limit, meter);
    if (!limit.pace) room = Math.min(room, Math.max(0, limit.max - windowAt(limit, tally, now)[1]));
    else if (tally[0] > now) room = 0;
    else room = Math.min(room, Math.floor((now - slotAt(tally, now)) / share(limit, 1)) + 1);
  }
  return room;
}

/** Whether all spans of the meter are over, so that no limit would count anything of it. */
export function isOver(meter: Meter, now: number): boolean {
  return Object.entries(meter).every(([name, tally]) => {
    const [kind, per] = name.split(" ", 2) as ["pace" | "span", string];
    return kind === "pace"
      ? tally[0] <= now - CATCH_UP_MS
      : windowAt({ per: Number(per) }, tally, now)[1] === 0;
  });
}

/** The meter after a start. */
export function spend(limits: readonly RateLimit[], meter: Meter, cost: number, now: number): Meter {
  return meterOf(limits, (limit) => {
    const tally = tallyOf(limit, meter);
    const amount = amountOf(limit, cost);
    if (limit.pace) return [slotAt(tally, now) + share(limit, amount), 0];
    const [began, used] = windowAt(limit, tally, now);
    return [began, used + amount];
  });
}

function meterOf(limits: readonly RateLimit[], tally: (limit: RateLimit) => Tally): Meter {
  const meter: Record<string, Tally> = {};
  for (const limit of limits) {
    const name = nameOf(limit);
    const next = tally(limit);
    // If two limits differ only in `max`, the stricter one counts.
    if (next[0] >= (meter[name]?.[0] ?? 0)) meter[name] = next;
  }
  return meter;
}

/** When this start was due: slightly in the past, so that it does not delay the next ones, or now. */
function slotAt([at]: Tally, now: number): number {
  return at >= now - CATCH_UP_MS ? at : now;
}

/** An attempt whose real cost is known. */
export interface Charge {
  cost: number;
  spent: number;
  startedAt: number;
}

/** The correction may make room for another task now. */
export function givesBack(limits: readonly RateLimit[], { cost, spent }: Charge): boolean {
  return spent < cost && limits.some(({ unit }) => unit !== null);
}

/**
 * The meter after the real cost of a start is known. If its window is over, an overcharge is lost with that window, and
 * an undercharge counts in the current one.
 */
export function correct(
  limits: readonly RateLimit[],
  meter: Meter,
  { cost, spent, startedAt }: Charge,
  now: number,
): Meter {
  return meterOf(limits, (limit) => {
    const tally = tallyOf(limit, meter);
    if (limit.unit === null) return tally;
    const difference = spent - cost;
    if (limit.pace) {
      if (difference >= 0) return [tally[0] + share(limit, difference), 0];
      // Give back only the part of the reserved time that lies ahead: the rest has passed.
      const reserved = startedAt + share(limit, cost);
      const needed = Math.max(now, startedAt + share(limit, spent));
      return [tally[0] - Math.max(0, reserved - needed), 0];
    }
    const [began, used] = windowAt(limit, tally, now);
    const owed = startedAt >= began ? difference : Math.max(0, difference);
    return [began, Math.max(0, used + owed)];
  });
}

/** The window that contains `now`. */
function windowAt({ per }: Pick<RateLimit, "per">, [at, used]: Tally, now: number): Tally {
  const began = now - (now % per);
  return [began, at === began ? used : 0];
}

function amountOf({ unit }: RateLimit, cost: number): number {
  return unit === null ? 1 : cost;
}

function share({ per, max }: RateLimit, amount: number): number {
  return (amount * per) / max;
}

/** One limit, or several at once, such as requests and tokens per minute. */
export function parseRateLimits(
  options: RateLimitOptions | readonly RateLimitOptions[] | null,
  what: string,
): RateLimit[] {
  if (options === null) return [];
  const list = Array.isArray(options)
    ? (options as readonly RateLimitOptions[])
    : [options as RateLimitOptions];
  if (list.length > MOST_LIMITS)
    throw invalid(`${what} is one limit, or up to ${MOST_LIMITS} limits that all apply; got ${list.length}.`);
  const limits = list.map((one, i) => parseRateLimit(one, list === options ? `${what}[${i}]` : what));
  checkDiffer(limits, what);
  return limits;
}

/** Two limits with the same spans and unit are a mistake: the higher one would never apply. */
function checkDiffer(limits: readonly RateLimit[], what: string): void {
  const seen = new Map<string, number>();
  for (const [i, { per, pace, unit }] of limits.entries()) {
    const name = JSON.stringify([per, pace, unit]);
    const before = seen.get(name);
    if (before !== undefined) {
      throw invalid(
        `${what}[${before}] and ${what}[${i}] count the same in the same spans of ${per} ms: the lower \`max\` decides. ` +
          `Leave the other out.`,
      );
    }
    seen.set(name, i);
  }
}

function parseRateLimit(options: RateLimitOptions, what: string): RateLimit {
  if (typeof options !== "object" || options === null)
    throw invalid(
      `${what} must be a limit such as { max: 60, per: "1m" }, or null for none; got ${show(options)}.`,
    );
  checkNames(options, ["max", "per", "pace", "unit"], what);
  return {
    max: checkNumber(options.max, `${what}.max`, 1, 1e12, FEWER),
    per: parseDuration(options.per, `${what}.per`, 1, LONGEST_SPAN_MS),
    pace: checkBoolean(options.pace ?? false, `${what}.pace`),
    unit: options.unit == null ? null : checkText(options.unit, `${what}.unit`, 64),
  };
}
