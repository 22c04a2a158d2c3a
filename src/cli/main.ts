#!/usr/bin/env node
import { Command, CommanderError } from "commander";
import { addCommand } from "./commands/add.ts";
import { queuesCommand } from "./commands/queues.ts";
import { serveCommand } from "./commands/serve.ts";
import { tokensCommand } from "./commands/tokens.ts";
import { EXIT, exitCodeOf } from "./exit.ts";

const program = new Command("dibs")
  .description("First to call it gets it: a work queue for agents and background work")
  .showHelpAfterError("(--help says more)")
  .addHelpText("after", `\nExit codes: ${describeExits()}`);

for (const command of [serveCommand(), addCommand(), queuesCommand(), tokensCommand()]) {
  program.addCommand(command);
}
for (const command of [program, ...program.commands, ...program.commands.flatMap((each) => each.commands)]) {
  command.exitOverride();
}

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) {
    process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage;
  } else {
    process.stderr.write(`dibs: ${(error as Error).message}\n`);
    process.exitCode = exitCodeOf(error);
  }
}

function describeExits(): string {
  return Object.entries(EXIT)
    .map(([name, code]) => `${code} ${name}`)
    .join(", ");
}
