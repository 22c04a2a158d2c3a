#!/usr/bin/env node
import { Command } from "commander";
import { addCommand } from "./commands/add.ts";
import { queuesCommand } from "./commands/queues.ts";
import { serveCommand } from "./commands/serve.ts";
import { tokensCommand } from "./commands/tokens.ts";
import { describeExits, runCommand } from "./run.ts";

const program = new Command("dibs")
  .description("First to call it gets it: a work queue for agents and background work")
  .showHelpAfterError("(--help says more)")
  .addHelpText("after", `\nExit codes: ${describeExits()}`);

for (const command of [serveCommand(), addCommand(), queuesCommand(), tokensCommand()]) {
  program.addCommand(command);
}
await runCommand(program);
