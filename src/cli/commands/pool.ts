import { resolve } from "node:path";
import { Command } from "commander";
import { kindOf } from "../../core/process/address.ts";
import { invalid } from "../../core/errors/errors.ts";
import type { NewEntry } from "../../core/supervision.ts";
import { Cap } from "../../pools/cap.ts";
import { type PoolFile, readPoolFile } from "../../pools/config.ts";
import { type PoolOptions, resolvePool } from "../../pools/options.ts";
import { findProgram } from "../../programs/find-program.ts";
import type { PoolPolicyOptions } from "../../pools/policy.ts";
import { aborted, onInterrupt } from "../interrupt.ts";
import { printJson, say } from "../output.ts";
import { policyFrom, withPolicy } from "../policy-flags.ts";
import { addressOf, openToWork, type StoreFlags, withStore } from "../store.ts";
import { duration } from "../values.ts";

// `dibs pool`: starts one pool from its flags, or several from a file, and runs them until it is stopped.

interface Flags extends StoreFlags, PoolPolicyOptions {
  name?: string;
  programs?: boolean;
  config?: string;
  stopTimeout: number;
  interval: number;
}

export function poolCommand(): Command {
  return withPolicy(withStore(new Command("pool")))
    .usage("[options] <queue...> -- <command> [argument...]")
    .argument("[queue...]", "the queues, and after -- the program that handles their tasks")
    .option("--name <name>", "one process at a time runs the pool of a name (the queues)")
    .option("--programs", "the program opens dibs itself and is kept running; otherwise one process per task")
    .option("--config <file>", "several pools that share one machine, and alerts: docs/guides/pools.md")
    .option(
      "--stop-timeout <time>",
      "after SIGTERM, a worker has this long to finish its task",
      duration,
      30_000,
    )
    .option("--interval <time>", "how often the pool decides", duration, 1_000)
    .action(run);
}

async function run(words: string[], flags: Flags): Promise<void> {
  const file = flags.config === undefined ? fromFlags(words, flags) : fromFile(words, flags, flags.config);
  const url = addressOf(flags.url);
  const env = environment(url, flags);
  const pools = file.pools.map((pool) => ({
    ...withDrones(pool),
    env: { ...env, ...pool.env },
    onDecision: (decision: NewEntry) => tell(flags, resolvePool(pool).name, decision),
  }));
  pools.forEach((pool) => resolvePool(pool));
  file.pools.forEach(findItsProgram);
  const interrupt = onInterrupt("Workers finish their tasks");
  await using dibs = await openToWork(flags);
  const cap = file.cap === null ? undefined : new Cap(file.cap);
  for (const pool of pools) dibs.startPool(pool, cap);
  if (file.alerts) dibs.alerts(file.alerts);
  await aborted(interrupt.signal);
}

function fromFlags(words: string[], flags: Flags): PoolFile {
  const at = process.argv.indexOf("--");
  const command = at < 0 ? [] : process.argv.slice(at + 1);
  const queues = words.slice(0, words.length - command.length);
  if (queues.length === 0 || command.length === 0)
    throw invalid("Name queues and, after --, the program: dibs pool emails --max 20 -- ./send-mail.sh");
  const { name, stopTimeout, interval } = flags;
  const kind = flags.programs ? "program" : "drone";
  const pool = { queues, command, kind, stopTimeout, interval, ...(name !== undefined && { name }) } as const;
  return { cap: null, pools: [{ ...policyFrom(flags), ...pool }], alerts: null };
}

function fromFile(words: string[], flags: Flags, path: string): PoolFile {
  if (words.length > 0)
    throw invalid("With --config, the file names the queues and programs. Leave them out here.");
  const { name, programs } = flags;
  const given = Object.entries({ ...policyFrom(flags), name, programs }).filter(
    ([, value]) => value !== undefined,
  );
  if (given.length > 0)
    throw invalid(`With --config, the file has the options of each pool. Write ${given[0]![0]} there.`);
  return readPoolFile(path);
}

/** As `dibs work` does: a mistyped program would crash again and again. Another folder or PATH has other programs. */
function findItsProgram({ command, cwd, env }: PoolOptions): void {
  if (command !== undefined && cwd === undefined && env?.["PATH"] === undefined) findProgram(command[0]!);
}

/** A drone is one `dibs work --once`, which gives the program its task. It gives it as long to finish as the pool does. */
function withDrones(pool: PoolOptions): PoolOptions {
  if (pool.kind !== "drone" || pool.command === undefined) return pool;
  const dibs = [process.execPath, ...process.execArgv, process.argv[1]!];
  const stop = pool.stopTimeout === undefined ? [] : ["--stop-timeout", `${resolvePool(pool).stopTimeout}ms`];
  return { ...pool, command: [...dibs, "work", ...pool.queues, "--once", ...stop, "--", ...pool.command] };
}

/** Workers use the same store. A file is found from any folder. */
function environment(url: string, { schema }: Flags): Record<string, string> {
  const named = schema ?? process.env["DIBS_SCHEMA"];
  return {
    DIBS_URL: kindOf(url) === "file" && !url.startsWith("file:") ? resolve(url) : url,
    ...(named && { DIBS_SCHEMA: named }),
  };
}

function tell({ json }: Flags, pool: string, { type, from, to, reasons }: NewEntry): void {
  const at = new Date();
  if (json) return printJson({ at, pool, type, from, to, reasons });
  // The log has it.
  if (type === "pool.crashing") return;
  const what = type === "pool.resized" ? `${from} → ${to} workers` : type.replace("pool.", "");
  say(`${at.toTimeString().slice(0, 8)}  ${pool}  ${what}. ${reasons.join(" ")}`);
}
