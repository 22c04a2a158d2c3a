import { Command } from "commander";
import { VERSION } from "../core/process/package-version.ts";
import { describeExits } from "./exit.ts";
import { runCommand } from "./run.ts";
import { loadVerb, VERBS } from "./verbs.ts";

/**
 * The command line of `dibs`, which main.ts starts. Only the verb that is used is loaded. The others are there with
 * their descriptions, for --help and for suggestions.
 */
export async function buildProgram(args: readonly string[]): Promise<Command> {
  const program = new Command("dibs")
    .version(VERSION, "-v, --version", "print the version")
    .description("First to call it gets it: a work queue for agents and background work")
    .addHelpText("after", `\nExit codes: ${describeExits()}`);
  const used = args[0] === "help" ? args[1] : args[0];
  for (const verb of VERBS) {
    const { name, about, group, isHidden = false } = verb;
    const stub = (): Command => new Command(name).description(about).helpGroup(`${group}:`);
    program.addCommand(name === used ? await loadVerb(verb) : stub(), { hidden: isHidden });
  }
  return program;
}

/** Called by main.ts. */
export async function main(): Promise<void> {
  const args = process.argv.slice(2);
  await runCommand(await buildProgram(args), args);
}
