import { invalid } from "../core/errors/errors.ts";
import { checkNames } from "../core/input/options.ts";
import { show } from "../core/errors/show.ts";
import { exponential, normal, type Random } from "./random.ts";

/** What a simulation puts on a pool: arrivals over time, and how long tasks take. Rates per second, times in ms. */
export type Load =
  | { kind: "constant"; rate: number }
  /** The high rate for half of the period, then the low one. */
  | { kind: "square"; low: number; high: number; period: number }
  /** One day: the low rate at 02:00, the high rate at 14:00. */
  | { kind: "daily"; low: number; high: number }
  /** A steady rate, and `size` tasks at once at the time `at`. */
  | { kind: "burst"; rate: number; size: number; at: number }
  /** Rates as they were measured; each is valid until the next. */
  | { kind: "recorded"; rates: { at: number; rate: number }[] };

export interface ServiceModel {
  mean: number;
  /** `exponential` (default), all the same, or with a long tail. */
  distribution: "exponential" | "fixed" | "lognormal";
}

export const DAY_MS = 86_400_000;

export function rateAt(load: Load, at: number): number {
  switch (load.kind) {
    case "constant":
    case "burst":
      return load.rate;
    case "square":
      return at % load.period < load.period / 2 ? load.high : load.low;
    case "daily": {
      const hour = ((at % DAY_MS) / DAY_MS) * 24;
      const height = (1 - Math.cos(((hour - 2) / 24) * 2 * Math.PI)) / 2;
      return load.low + (load.high - load.low) * height;
    }
    case "recorded": {
      const found = load.rates.findLast((each) => each.at <= at);
      return found?.rate ?? 0;
    }
  }
}

export function highestRate(load: Load): number {
  if (load.kind === "constant" || load.kind === "burst") return load.rate;
  if (load.kind === "recorded") return load.rates.reduce((most, { rate }) => Math.max(most, rate), 0);
  return Math.max(load.low, load.high);
}

/** The arrivals until `end`, in order: Poisson with the rate of each moment. */
export function* arrivals(load: Load, end: number, random: Random): Generator<number, void> {
  const highest = highestRate(load);
  const burst = load.kind === "burst" ? load : { size: 0, at: end };
  let left = burst.size;
  // Candidates at the highest rate; each is accepted with the probability of its moment.
  const next = (): number => (highest === 0 ? end : exponential(random, 1_000 / highest));
  for (let at = next(); at < end; at += next()) {
    for (; left > 0 && burst.at <= at; left--) yield burst.at;
    if (random() * highest < rateAt(load, at)) yield at;
  }
  for (; left > 0 && burst.at < end; left--) yield burst.at;
}

export function serviceTime({ mean, distribution }: ServiceModel, random: Random): number {
  if (distribution === "fixed") return mean;
  if (distribution === "exponential") return exponential(random, mean);
  // The deviation of the logarithm: one task in a hundred takes six times the mean.
  return mean * Math.exp(normal(random) * SPREAD - (SPREAD * SPREAD) / 2);
}

const SPREAD = 1;

/** Checks a load that comes from a command or a file. */
export function checkLoad(load: Load): Load {
  const { kind, ...figures } = load;
  const known = {
    constant: ["rate"],
    square: ["low", "high", "period"],
    daily: ["low", "high"],
    burst: ["rate", "size", "at"],
    recorded: ["rates"],
  };
  if (!Object.hasOwn(known, kind))
    throw invalid(`A load is one of ${Object.keys(known).join(", ")}; got ${show(kind)}.`);
  checkNames(figures, known[kind], `${kind} load`);
  const numbers =
    load.kind === "recorded" ? load.rates.flatMap(({ at, rate }) => [at, rate]) : Object.values(figures);
  const wrong = numbers.find((each) => typeof each !== "number" || !Number.isFinite(each) || each < 0);
  if (wrong !== undefined) throw invalid(`The figures of a load are numbers from 0 on; got ${show(wrong)}.`);
  if (load.kind === "square" && load.period <= 0)
    throw invalid("The period of a square wave must be above 0.");
  if (highestRate(load) > MOST_RATE)
    throw invalid(`A load of more than ${MOST_RATE} tasks/s is not simulated.`);
  return load;
}

const MOST_RATE = 100_000;
