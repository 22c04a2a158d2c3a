import { type Command, CommanderError } from "commander";
import { withoutSecrets } from "../core/address.ts";
import { escapeControls } from "../core/show.ts";
import { EXIT, exitCodeOf } from "./exit.ts";

/** Runs the command line. A failure prints one sentence on standard error and sets an exit code. */
export async function runCommand(program: Command): Promise<void> {
  for (const command of [
    program,
    ...program.commands,
    ...program.commands.flatMap((each) => each.commands),
  ]) {
    command.exitOverride();
    // Commander's errors quote arguments, and one of them may be an address.
    command.configureOutput({ outputError: (text, write) => write(escapeArguments(text)) });
  }
  // The reader of the output may stop early, as `head` does. The command completes all the same.
  process.stdout.on("error", () => {});
  try {
    await program.parseAsync();
  } catch (error) {
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage;
    } else {
      process.stderr.write(`dibs: ${escapeControls((error as Error).message)}\n`);
      process.exitCode = exitCodeOf(error);
    }
  }
}

function escapeArguments(text: string): string {
  return process.argv
    .slice(2)
    .reduce((shown, each) => shown.replaceAll(each, () => withoutSecrets(each)), text);
}

export function describeExits(): string {
  return Object.entries(EXIT)
    .map(([name, code]) => `${code} ${name}`)
    .join(", ");
}
