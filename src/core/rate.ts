import { type Duration, parseDuration } from "./duration.ts";
import { invalid } from "./errors.ts";
import { checkBoolean, checkNames, checkNumber, checkText } from "./options.ts";
import { show } from "./show.ts";

/**
 * How many starts a span of time may have. Spans are fixed windows on the engine's clock, so that a limit is two numbers
 * however many start: up to twice `max` may straddle a boundary. A paced limit spreads the starts instead.
 */
export interface RateLimit {
  max: number;
  /** Milliseconds. */
  per: number;
  /** Each start is followed by its share of `per`, rather than all at the beginning of it. */
  pace: boolean;
  /** What is counted: the cost of a task in this unit; null: each task once. */
  unit: string | null;
}

export interface RateLimitOptions {
  max: number;
  per: Duration;
  pace?: boolean;
  unit?: string | null;
}

/** What one limit has seen. Of a window: when it began, and what was used of it. Paced: when the next may start. */
export type Tally = [at: number, used: number];

/**
 * The tallies of several limits, each by what its limit is: so a list of limits may change, and each that stays keeps its own.
 * How much it allows is no part of that.
 */
export type Meter = Readonly<Record<string, Tally>>;

export const NO_METER: Meter = {};

const UNSEEN: Tally = [0, 0];
/** A paced start that comes late by no more than this is made up for; what was missed before that is not. */
const CATCH_UP_MS = 50;
const MOST_LIMITS = 8;
/** A longer span is no limit to a rate, but a budget that nobody would notice to be spent. */
const LONGEST_SPAN_MS = 31 * 86_400_000;

const FEWER = "For fewer than one, make `per` longer; to start none for a while, pause the queue.";

function nameOf({ per, pace, unit }: RateLimit): string {
  return `${pace ? "pace" : "span"} ${per} ${unit ?? ""}`;
}

function tallyOf(limit: RateLimit, meter: Meter): Tally {
  return meter[nameOf(limit)] ?? UNSEEN;
}

/** When the span began that a limit counts in, as far as the meter knows; 0 where it knows of none. */
export function beganAt(limit: RateLimit, meter: Meter): number {
  return limit.pace ? 0 : tallyOf(limit, meter)[0];
}

export function isEmpty(meter: Meter): boolean {
  return Object.keys(meter).length === 0;
}

/** From when on a task of this cost may start: now, or later. What costs more than a window has starts alone in one. */
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

/** How many may start at this moment at most: what they cost may leave fewer. */
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

/** Nothing of what it has seen counts any more, whatever the limits are. */
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
    // Of two that differ in how much they allow, the one that allows less.
    if (next[0] >= (meter[name]?.[0] ?? 0)) meter[name] = next;
  }
  return meter;
}

/** When the start was due that comes at this moment: a little ago, so that it does not delay those that follow, or now. */
function slotAt([at]: Tally, now: number): number {
  return at >= now - CATCH_UP_MS ? at : now;
}

/** Of an attempt whose real cost is known. */
export interface Charge {
  cost: number;
  spent: number;
  startedAt: number;
}

/** There may be room for another one now. */
export function givesBack(limits: readonly RateLimit[], { cost, spent }: Charge): boolean {
  return spent < cost && limits.some(({ unit }) => unit !== null);
}

/**
 * The meter after it is known what a start really cost. What a window that is over was charged too much is lost with it;
 * what it was charged too little is charged to the present one.
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
      // Of the time that it kept the others waiting, what lies ahead: the rest has passed.
      const reserved = startedAt + share(limit, cost);
      const needed = Math.max(now, startedAt + share(limit, spent));
      return [tally[0] - Math.max(0, reserved - needed), 0];
    }
    const [began, used] = windowAt(limit, tally, now);
    const owed = startedAt >= began ? difference : Math.max(0, difference);
    return [began, Math.max(0, used + owed)];
  });
}

/** The window of the moment. */
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

/** One limit, or several at once: requests and tokens a minute. */
export function parseRateLimits(
  options: RateLimitOptions | readonly RateLimitOptions[] | null,
  what: string,
): RateLimit[] {
  if (options === null) return [];
  const list = Array.isArray(options)
    ? (options as readonly RateLimitOptions[])
    : [options as RateLimitOptions];
  if (list.length > MOST_LIMITS)
    throw invalid(
      `${what} is one limit or up to ${MOST_LIMITS} of them, of which all hold; got ${list.length}.`,
    );
  const limits = list.map((one, i) => parseRateLimit(one, list === options ? `${what}[${i}]` : what));
  checkDiffer(limits, what);
  return limits;
}

/** Of two that count the same in the same spans one would never be met. */
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
