import { writeFileSync } from "node:fs";
import { Command } from "commander";
import { invalid } from "../../core/errors/errors.ts";
import { show } from "../../core/errors/show.ts";
import { parseWindow } from "../../core/queue/window.ts";
import { drawStrips, drawSvg, type NamedRun } from "../../pools/draw.ts";
import { checkLoad, DAY_MS, highestRate, type Load, type ServiceModel } from "../../pools/load.ts";
import { parsePoolPolicy, type PoolPolicyOptions } from "../../pools/policy.ts";
import { type Scenario, simulate } from "../../pools/simulate.ts";
import { formatCount, formatDuration } from "../human.ts";
import { print, printJson, say } from "../output.ts";
import { parseChanges, policyFrom, share, withPolicy } from "../policy-flags.ts";
import { measureQueue, readRates, recordRates } from "../recorded-rates.ts";
import { type StoreFlags, withStore } from "../store.ts";
import { type Column, printTable } from "../table.ts";
import { choiceOption, duration, wholeNumber } from "../values.ts";

// `dibs simulate`: compares policies of a pool in virtual time, under an invented or a recorded load.

interface Flags extends StoreFlags, PoolPolicyOptions {
  load?: "constant" | "square" | "daily" | "burst";
  rate?: number;
  low?: number;
  high?: number;
  period: number;
  burst: number;
  burstAt: number;
  rates?: string;
  queue?: string;
  record?: string;
  duration?: number;
  service?: number;
  distribution: ServiceModel["distribution"];
  failureRate?: number;
  retryDelay: number;
  maxAttempts: number;
  startUp: number;
  interval: number;
  drones?: boolean;
  window?: string;
  seed: number;
  price?: number;
  compare?: string;
  svg?: string;
}

const HOUR_MS = 3_600_000;

export function simulateCommand(): Command {
  const command = withPolicy(withStore(new Command("simulate")))
    .addOption(
      choiceOption("--load <kind>", "the arrivals (constant)", ["constant", "square", "daily", "burst"]),
    )
    .option("--rate <number>", "constant, burst: tasks per second (1)", number)
    .option("--low <number>", "square, daily: the lowest rate (0.1)", number)
    .option("--high <number>", "square, daily: the highest rate (1)", number)
    .option("--period <time>", "square: one wave", duration, HOUR_MS)
    .option("--burst <number>", "burst: tasks at once", wholeNumber, 1_000)
    .option("--burst-at <time>", "burst: when", duration, 60_000)
    .option("--rates <file>", "recorded arrivals, as --record prints them; - is standard input")
    .option("--queue <queue>", "arrivals, durations and failures as this queue has them now")
    .option("--record <queue>", "print the rates of this queue as lines of JSON until Ctrl-C, for --rates")
    .option("--duration <time>", "how long to simulate (1h; daily: 1d)", duration)
    .option("--service <time>", "how long a task takes on average (1s)", duration)
    .addOption(
      choiceOption("--distribution <kind>", "of these times", ["exponential", "fixed", "lognormal"]).default(
        "exponential",
      ),
    )
    .option("--failure-rate <share>", "the share of attempts that fail (0)", share)
    .option("--retry-delay <time>", "until a failed task is tried again", duration, 1_000)
    .option("--max-attempts <number>", "attempts until a task is dead", wholeNumber, 5)
    .option("--start-up <time>", "from the start of a worker to its first claim", duration, 1_000)
    .option("--interval <time>", "how often the pool decides", duration, 1_000)
    .option("--drones", "a worker ends after each task")
    .option("--window <hours>", "the queue's window in UTC, such as 22:00-06:00")
    .option("--seed <number>", "another seed gives other random numbers", wholeNumber, 1)
    .option("--price <number>", "of one worker-hour, for the cost", number)
    .option(
      "--compare <changes>",
      "a second policy: what it changes, such as mode=cost,batch=200,max-age=15m",
    )
    .option("--svg <file>", "draw a picture");
  return command.action(run);
}

function number(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && Number.isFinite(value) && value >= 0) return value;
  throw invalid(`${JSON.stringify(text)} is not possible: give a number from 0 on.`);
}

async function run(flags: Flags): Promise<void> {
  if (flags.record !== undefined) return recordRates(flags, flags.record);
  const policy = policyFrom(flags);
  const policies: [string, PoolPolicyOptions][] = [[flags.mode ?? "latency", policy]];
  if (flags.compare !== undefined) {
    const changes = parseChanges(flags.compare);
    policies.push([flags.compare, withChanges(policy, changes)]);
  }
  const parsed = policies.map(([name, options]) => [name, parsePoolPolicy(options)] as const);
  const scenario = await scenarioFrom(flags);
  const runs = parsed.map(([name, each]) => ({ name, measurements: simulate(scenario, each) }));
  if (flags.svg !== undefined) writePicture(flags.svg, drawSvg(describeScenario(scenario), runs));
  if (flags.json)
    return printJson({
      scenario,
      runs: runs.map((each, at) => ({ name: each.name, policy: parsed[at]![1], ...each.measurements })),
    });
  printRuns(runs, flags.price);
  if (flags.svg !== undefined) say(`The picture is in ${flags.svg}.`);
}

/** The other way to size the pool replaces the one of the first policy. */
function withChanges(policy: PoolPolicyOptions, changes: PoolPolicyOptions): PoolPolicyOptions {
  const { targetWait, tasksPerWorker, ...rest } = policy;
  const isOther = "tasksPerWorker" in changes || "targetWait" in changes || changes.mode !== undefined;
  return { ...rest, ...(!isOther && { targetWait, tasksPerWorker }), ...changes };
}

async function scenarioFrom(flags: Flags): Promise<Scenario> {
  checkFlags(flags);
  const measured = flags.queue === undefined ? undefined : await measureQueue(flags, flags.queue);
  const load = checkLoad(
    flags.rates === undefined ? loadFrom(flags, measured?.rate) : await readRates(flags.rates),
  );
  const end = load.kind === "recorded" ? load.rates.at(-1)!.at : load.kind === "daily" ? DAY_MS : HOUR_MS;
  const { retryDelay, maxAttempts, startUp, interval, seed, duration = end } = flags;
  checkAmount(load, duration);
  return {
    ...{ load, retryDelay, maxAttempts, startUp, interval, seed, duration },
    service: { mean: flags.service ?? measured?.serviceTime ?? 1_000, distribution: flags.distribution },
    failureRate: flags.failureRate ?? measured?.failureRate ?? 0,
    drones: flags.drones === true,
    window: flags.window === undefined ? null : parseWindow(flags.window),
  };
}

/** Refuses what would be ignored, and what has no meaning. */
function checkFlags(flags: Flags): void {
  const { load, rates, queue, interval, maxAttempts, duration: length, period, low = 0.1, high = 1 } = flags;
  for (const [name, time] of Object.entries({ interval, period, duration: length }))
    if (time !== undefined && time < 1) throw invalid(`--${name} must be at least 1ms; got ${time} ms.`);
  if (maxAttempts < 1) throw invalid(`--max-attempts must be at least 1; got ${maxAttempts}.`);
  if (rates !== undefined && (load !== undefined || queue !== undefined))
    throw invalid(`--rates gives the arrivals. Leave out ${load === undefined ? "--queue" : "--load"}.`);
  // The measured rate of a queue is the high one.
  if ((load === "square" || load === "daily") && queue === undefined && low > high)
    throw invalid(`--low (${low}) must not be above --high (${high}). Change one of them.`);
}

/** A million tasks take about a second. */
const MOST_TASKS = 100_000_000;

function checkAmount(load: Load, length: number): void {
  const tasks = (highestRate(load) * length) / 1_000 + (load.kind === "burst" ? load.size : 0);
  if (tasks <= MOST_TASKS) return;
  throw invalid(
    `This load may have ${formatCount(Math.round(tasks))} tasks, and a simulation at most ${formatCount(MOST_TASKS)}. Give a shorter --duration or a lower rate.`,
  );
}

function writePicture(file: string, svg: string): void {
  try {
    writeFileSync(file, svg);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw invalid(
      `The picture cannot be written to ${show(file)} (${code}). Name a file in a folder that exists.`,
    );
  }
}

function loadFrom(flags: Flags, measured: number | undefined): Load {
  const {
    load = "constant",
    rate = measured ?? 1,
    low = 0.1,
    high = measured ?? 1,
    period,
    burst,
    burstAt,
  } = flags;
  if (load === "square") return { kind: load, low, high, period };
  if (load === "daily") return { kind: load, low, high };
  if (load === "burst") return { kind: load, rate, size: burst, at: burstAt };
  return { kind: "constant", rate };
}

function describeScenario({ load, duration: length, service, seed }: Scenario): string {
  const kind =
    load.kind === "daily"
      ? "a day's curve"
      : load.kind === "square"
        ? "a square wave"
        : `a ${load.kind} load`;
  return `Simulation: ${kind} for ${formatDuration(length)}, ${formatDuration(service.mean)} per task, seed ${seed}`;
}

function printRuns(runs: NamedRun[], price: number | undefined): void {
  const columns: Column<NamedRun>[] = [
    { head: "POLICY", cell: ({ name }) => name, isCut: true },
    { head: "TASKS", cell: ({ measurements }) => measurements.summary.added },
    { head: "LEFT", cell: ({ measurements }) => measurements.summary.left },
    { head: "DEAD", cell: ({ measurements }) => measurements.summary.dead || "", isOptional: true },
    { head: "WORKER-HOURS", cell: ({ measurements }) => Number(measurements.summary.workerHours.toFixed(2)) },
    {
      head: "COST",
      cell: ({ measurements }) =>
        price === undefined ? "" : (measurements.summary.workerHours * price).toFixed(2),
      isOptional: true,
    },
    { head: "BUSY", cell: ({ measurements }) => `${Math.round(measurements.summary.utilisation * 100)} %` },
    { head: "MOST", cell: ({ measurements }) => measurements.summary.peakWorkers },
    { head: "STARTS", cell: ({ measurements }) => measurements.summary.starts },
    { head: "MEAN WAIT", cell: ({ measurements }) => formatDuration(measurements.summary.wait.mean) },
    { head: "95 %", cell: ({ measurements }) => formatDuration(measurements.summary.wait.p95) },
    { head: "LONGEST", cell: ({ measurements }) => formatDuration(measurements.summary.wait.max) },
    { head: "DEEPEST", cell: ({ measurements }) => formatCount(measurements.summary.peakDepth) },
  ];
  printTable(runs, columns);
  print("");
  for (const line of drawStrips(runs, Math.min(process.stdout.columns ?? 100, 140))) print(line);
}
