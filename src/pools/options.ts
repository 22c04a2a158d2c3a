import { type Duration, parseDuration } from "../core/time/duration.ts";
import { invalid } from "../core/errors/errors.ts";
import { checkNames, checkObject, checkText } from "../core/input/options.ts";
import { checkQueueName } from "../core/queue/queue-name.ts";
import { show } from "../core/errors/show.ts";
import type { NewEntry } from "../core/supervision.ts";
import type { PoolPolicy } from "./decide.ts";
import type { Scale } from "./external.ts";
import { parsePoolPolicy, POLICY_OPTIONS, type PoolPolicyOptions } from "./policy.ts";

/** What `dibs.pool()` takes, and each pool of a file for `dibs pool --config`. */
export interface PoolOptions extends PoolPolicyOptions {
  /** One process at a time runs the pool of a name; others wait. Default: the queues. */
  name?: string | undefined;
  queues: string[];
  /** The program of a worker, with its arguments. It opens dibs itself, and stops on SIGTERM. */
  command?: string[] | undefined;
  /** `"program"` (default): kept running. `"drone"`: ends after one task, and is started again. */
  kind?: "program" | "drone" | undefined;
  /** Instead of `command`: a command that sets the size ({size} is replaced), or a webhook that gets it. */
  scale?: Scale | undefined;
  /** Variables for the program, in addition to those of this process. */
  env?: Record<string, string> | undefined;
  cwd?: string | undefined;
  /** What the program prints; default `"inherit"`. */
  output?: "inherit" | "ignore" | undefined;
  /** After SIGTERM, a worker has this long to finish its task; default 30 s. Then it is killed. */
  stopTimeout?: Duration | undefined;
  /** How often the pool decides, default 1 s. */
  interval?: Duration | undefined;
  /** How long the name is held without a renewal, default 10 s: another process takes over after that. */
  lease?: Duration | undefined;
  /** Called with each decision of this process: its type, the sizes before and after, and the reasons. */
  onDecision?: ((decision: NewEntry) => void) | undefined;
}

export interface ResolvedPool {
  name: string;
  queues: string[];
  policy: PoolPolicy;
  runs: { command: string[]; kind: "program" | "drone" } | { scale: Scale };
  env: Record<string, string>;
  cwd: string | undefined;
  output: "inherit" | "ignore";
  stopTimeout: number;
  interval: number;
  lease: number;
  onDecision: ((decision: NewEntry) => void) | undefined;
}

const OWN = [
  "name",
  "queues",
  "command",
  "kind",
  "scale",
  "env",
  "cwd",
  "output",
  "stopTimeout",
  "interval",
  "lease",
  "onDecision",
];

export function resolvePool(options: PoolOptions): ResolvedPool {
  checkObject(options, "The options of pool");
  checkNames(options, [...OWN, ...POLICY_OPTIONS], "pool");
  const { queues, env = {}, cwd, output = "inherit" } = options;
  if (!Array.isArray(queues) || queues.length === 0 || queues.length > 100)
    throw invalid(`queues must be an array of 1 to 100 names; got ${show(queues)}.`);
  const named = [...new Set(queues.map((queue) => checkQueueName(queue)))];
  checkObject(env, "env");
  if (output !== "inherit" && output !== "ignore")
    throw invalid(`output must be "inherit" or "ignore"; got ${show(output)}.`);
  const policy = parsePoolPolicy(options);
  return {
    name: checkText(options.name ?? named.join("+").slice(0, 200), "The name of a pool", 200),
    ...{ queues: named, policy, env, cwd, output },
    runs: runsOf(options),
    stopTimeout: parseDuration(options.stopTimeout ?? "30s", "stopTimeout"),
    interval: parseDuration(options.interval ?? "1s", "interval", 20),
    onDecision: checkListener(options.onDecision),
    lease: parseDuration(options.lease ?? "10s", "lease", 200, 3_600_000),
  };
}

function checkListener(listener: PoolOptions["onDecision"]): PoolOptions["onDecision"] {
  if (listener === undefined || typeof listener === "function") return listener;
  throw invalid(`onDecision must be a function; got ${show(listener)}.`);
}

function runsOf({ command, kind = "program", scale }: PoolOptions): ResolvedPool["runs"] {
  if (kind !== "program" && kind !== "drone")
    throw invalid(`kind must be "program" or "drone"; got ${show(kind)}.`);
  if (command !== undefined && scale === undefined)
    return { command: checkCommand(command, "command"), kind };
  if (command !== undefined || scale === undefined)
    throw invalid(
      `A pool needs a command that it starts, or scale, which sets the size elsewhere; not both.`,
    );
  checkObject(scale, "scale");
  if (!("webhook" in scale)) {
    checkNames(scale, ["command"], "scale");
    return { scale: { command: checkCommand(scale.command, "scale.command") } };
  }
  checkNames(scale, ["webhook", "headers"], "scale");
  if (typeof scale.webhook !== "string" || !/^https?:/.test(scale.webhook) || !URL.canParse(scale.webhook))
    throw invalid(`scale.webhook must be an address such as http://127.0.0.1:8080/scale.`);
  return { scale };
}

export function checkCommand(command: unknown, what: string): string[] {
  const isList = Array.isArray(command) && command.length > 0;
  if (isList && command.every((each) => typeof each === "string")) return command;
  throw invalid(
    `${what} must be a program and its arguments, such as ["node", "worker.js"]; got ${show(command)}.`,
  );
}
