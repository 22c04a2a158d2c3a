import { spawnSync } from "node:child_process";
import { Command } from "commander";
import { invalid } from "../core/errors/errors.ts";
import { show } from "../core/errors/show.ts";
import { callSocket } from "../programs/call-socket.ts";
import { findProgram } from "../programs/find-program.ts";
import { OUTPUT_BYTES } from "../programs/launch.ts";
import { ShellError } from "./exit.ts";
import { nameAndValue, parseJson, wholeNumber } from "./values.ts";

/**
 * The verbs of `dibs task` for a program that `dibs work` has started: they concern the task of this program, and are
 * fenced by its claim. commands/task.ts has the verbs that name a task.
 */
export function addProgramVerbs(task: Command): Command {
  return task
    .addCommand(extend())
    .addCommand(progress())
    .addCommand(log())
    .addCommand(step())
    .addCommand(addTask());
}

const GROUP = "In a program that dibs work has started:";

function extend(): Command {
  return new Command("extend")
    .helpGroup(GROUP)
    .description("let this attempt take so long from now")
    .argument("<duration>", "such as 10m")
    .action(async (lease: string) => {
      await callSocket("POST", "/extend", { lease });
    });
}

function progress(): Command {
  return new Command("progress")
    .helpGroup(GROUP)
    .description("report progress")
    .argument("<share>", "between 0 and 1")
    .argument("[note]", "what is being done")
    .action(async (share: string, note?: string) => {
      const value = share.trim() === "" ? Number.NaN : Number(share);
      if (Number.isNaN(value))
        throw invalid(`The share must be a number between 0 and 1, such as 0.4; got ${show(share)}.`);
      await callSocket("POST", "/progress", { value, ...(note !== undefined && { note }) });
    });
}

function log(): Command {
  return new Command("log")
    .helpGroup(GROUP)
    .description("store a line with this attempt; dibs task show prints it")
    .argument("<text...>", "the line")
    .action(async (words: string[]) => {
      await callSocket("POST", "/log", { text: words.join(" ") });
    });
}

function step(): Command {
  return new Command("step")
    .helpGroup(GROUP)
    .description("run a command once for this task: later attempts get what it printed")
    .usage("<name> -- <command> [argument...]")
    .argument("<name>", "the step's name")
    .argument("<command...>", "what prints the value of the step")
    .action(async (name: string, command: string[]) => {
      const path = `/steps/${encodeURIComponent(name)}`;
      const found = await callSocket("GET", path);
      if (found["stored"] === true) return printValue(found["value"]);
      const { value } = await callSocket("PUT", path, { value: valueOf(command) });
      printValue(value);
    });
}

function addTask(): Command {
  return new Command("add")
    .helpGroup(GROUP)
    .description("add a task that commits with the success of this one, or not at all")
    .argument("<queue>", "the queue's name")
    .argument("[json]", "the payload; default null", "null")
    .option("--priority <number>", "higher first", wholeNumber)
    .option("--delay <duration>", "do not start before this, such as 10s")
    .option("--group <key>", "tasks with the same key run in order, one at a time")
    .option("--key <key>", "an idempotency key: the same one returns the same task")
    .option("--header <name=value...>", "a header of the task", nameAndValue)
    .action(async (queue: string, json: string, flags: AddFlags) => {
      const { group, key, header, ...same } = flags;
      await callSocket("POST", "/add", {
        queue,
        data: parseJson(json, "The payload"),
        ...same,
        ...(group !== undefined && { groupKey: group }),
        ...(key !== undefined && { idempotencyKey: key }),
        ...(header !== undefined && { headers: header }),
      });
    });
}

interface AddFlags {
  priority?: number;
  delay?: string;
  group?: string;
  key?: string;
  header?: Record<string, string>;
}

/** What the command of a step printed: JSON if it is JSON. A step whose command fails is not stored. */
function valueOf([name, ...args]: string[]): unknown {
  const { status, signal, stdout } = spawnSync(findProgram(name!), args, {
    stdio: ["inherit", "pipe", "inherit"],
    maxBuffer: OUTPUT_BYTES,
  });
  if (status !== 0) throw new ShellError("failed", `The step failed: ${signal ?? `exit code ${status}`}.`);
  const text = stdout.toString("utf8").trimEnd();
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Text as it is, everything else as JSON: what the next command of a pipe expects. */
function printValue(value: unknown): void {
  process.stdout.write(typeof value === "string" ? `${value}\n` : `${JSON.stringify(value ?? null)}\n`);
}
