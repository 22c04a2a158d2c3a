import { type Command, CommanderError } from "commander";
import { withoutSecrets } from "../core/process/address.ts";
import { EXIT, exitCodeOf } from "./exit.ts";
import { formatDuration } from "./human.ts";
import { didYouMean } from "./nearest.ts";
import { ignoreBrokenPipe, ReaderGone, say } from "./output.ts";
import { duration } from "./values.ts";

/** Runs the command line. A failure prints one sentence on standard error and sets an exit code. */
export async function runCommand(program: Command, args: string[] = process.argv.slice(2)): Promise<void> {
  prepare(program, args, program.name());
  ignoreBrokenPipe();
  try {
    checkSubcommand(program, args);
    await program.parseAsync(args, { from: "user" });
  } catch (error) {
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage;
    } else if (!(error instanceof ReaderGone)) {
      say(`dibs: ${(error as Error).message}`);
      process.exitCode = exitCodeOf(error);
    }
  }
}

function prepare(command: Command, args: readonly string[], path: string): void {
  command.exitOverride().showHelpAfterError(`(see ${path} --help)`);
  // Commander's errors quote arguments, and one of them may be an address.
  command.configureOutput({ outputError: (text, write) => write(hideSecrets(text, args)) });
  for (const option of command.options)
    if (option.parseArg === (duration as unknown) && typeof option.defaultValue === "number")
      option.defaultValueDescription = formatDuration(option.defaultValue);
  for (const each of command.commands) prepare(each, args, `${path} ${each.name()}`);
}

function hideSecrets(text: string, args: readonly string[]): string {
  return args.reduce((shown, each) => shown.replaceAll(each, () => withoutSecrets(each)), text);
}

/**
 * Refuses a mistyped subcommand of a verb that lists if it is called without one: commander would take it for an
 * argument of the list. After `help`, commander would print the help of all verbs.
 */
function checkSubcommand(program: Command, [verb, name]: readonly string[]): void {
  if (verb === "help" && name !== undefined) {
    const verbs = program.commands.map((each) => each.name());
    if (!verbs.includes(name)) program.error(`error: unknown command '${name}'.${didYouMean(name, verbs)}`);
  }
  const group = program.commands.find((each) => each.name() === verb);
  if (!group || group.commands.length === 0 || name === undefined || name.startsWith("-")) return;
  const names = group.commands.map((each) => each.name());
  if (name === "help" || names.includes(name)) return;
  group.error(
    `error: unknown command '${name}' of dibs ${verb}; it has ${names.join(", ")}.${didYouMean(name, names)}`,
  );
}
