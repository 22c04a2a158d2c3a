import { type Command, InvalidArgumentError } from "commander";
import type { Duration } from "../core/time/duration.ts";
import { invalid } from "../core/errors/errors.ts";
import { show } from "../core/errors/show.ts";
import { POLICY_OPTIONS, type PoolPolicyOptions } from "../pools/policy.ts";
import { choiceOption, duration, oneOf, wholeNumber } from "./values.ts";
import { didYouMean } from "./nearest.ts";

/** The flags that size a pool: `dibs pool` and `dibs simulate` have the same ones. */
type Name = (typeof POLICY_OPTIONS)[number];

const MODES = ["latency", "cost"] as const;

const ABOUT: Record<
  Exclude<Name, "mode">,
  [value: string, parse: (text: string) => Duration, about: string]
> = {
  min: ["number", wholeNumber, "the fewest workers (0)"],
  max: ["number", wholeNumber, "the most workers (10)"],
  concurrency: ["number", wholeNumber, "tasks that one worker executes at a time (1)"],
  targetWait: [
    "time",
    duration,
    "95 % of the tasks start within this time (5s); cost mode: a batch ends within it (5m)",
  ],
  tasksPerWorker: ["number", wholeNumber, "instead of a target wait: one worker for this many tasks"],
  upThreshold: ["share", share, "grow if workers are busy for more than this part of the time (0.85)"],
  downThreshold: ["share", share, "shrink if they are busy for less than this (0.5)"],
  upCooldown: ["time", duration, "time between two steps up (5s)"],
  downCooldown: ["time", duration, "time without growth before a step down (3m; cost mode: 10s)"],
  stepUp: ["number", wholeNumber, "the most workers that start at once (all)"],
  stepDown: ["number", wholeNumber, "the most workers that end at once (a quarter of the most)"],
  batch: ["number", wholeNumber, "cost mode: start workers when this many tasks wait (100)"],
  maxAge: ["time", duration, "cost mode: start workers when a task has waited this long (10m)"],
};

export function withPolicy(command: Command): Command {
  command.addOption(
    choiceOption("--mode <mode>", "latency: short waits (default); cost: few worker-hours", MODES),
  );
  for (const [name, [value, parse, about]] of Object.entries(ABOUT))
    command.option(`${flagOf(name)} <${value}>`, about, parse);
  return command;
}

/** Those of a command's flags that size the pool. */
export function policyFrom(flags: Partial<Record<Name, unknown>>): PoolPolicyOptions {
  return Object.fromEntries(
    POLICY_OPTIONS.filter((name) => flags[name] !== undefined).map((name) => [name, flags[name]]),
  );
}

/** Changes of a policy in one text: "mode=cost,batch=200,max-age=15m". */
export function parseChanges(text: string): PoolPolicyOptions {
  const flags = POLICY_OPTIONS.map((name) => flagOf(name).slice(2));
  const changes = text.split(",").map((change) => {
    const at = change.indexOf("=");
    const [flag, value] = [change.slice(0, at).trim(), change.slice(at + 1).trim()];
    const name = POLICY_OPTIONS[flags.indexOf(flag)];
    if (at < 1 || name === undefined) {
      throw invalid(
        `--compare takes changes of the policy such as mode=cost,batch=200; got ${show(change)}.${didYouMean(flag, flags)} ` +
          `Known: ${flags.join(", ")}.`,
      );
    }
    return [name, parseOne(flag, name, value)] as const;
  });
  return Object.fromEntries(changes);
}

function parseOne(flag: string, name: Name, value: string): unknown {
  try {
    return name === "mode" ? oneOf(MODES)(value) : ABOUT[name][1](value);
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error;
    throw invalid(`${flag} in --compare: ${show(value)} is not possible. ${error.message}`);
  }
}

export function share(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && value >= 0 && value <= 1) return value;
  throw new InvalidArgumentError("It must be a number from 0 to 1, such as 0.85.");
}

function flagOf(name: string): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
