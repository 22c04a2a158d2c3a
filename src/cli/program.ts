import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { addCommand } from "./commands/add.ts";
import { exportCommand } from "./commands/export.ts";
import { importCommand } from "./commands/import.ts";
import { moveCommand } from "./commands/move.ts";
import { queuesCommand } from "./commands/queues.ts";
import { serveCommand } from "./commands/serve.ts";
import { tokensCommand } from "./commands/tokens.ts";
import { unholdCommand } from "./commands/unhold.ts";
import { describeExits, runCommand } from "./run.ts";

/** Next to `src` in a clone, and next to `dist` in the package. */
const packageFile = join(import.meta.dirname, "../../package.json");
const { version } = JSON.parse(readFileSync(packageFile, "utf8")) as { version: string };

const program = new Command("dibs")
  .version(version, "-v, --version", "print the version")
  .description("First to call it gets it: a work queue for agents and background work")
  .showHelpAfterError("(see --help)")
  .addHelpText("after", `\nExit codes: ${describeExits()}`);

for (const command of [
  serveCommand(),
  addCommand(),
  queuesCommand(),
  unholdCommand(),
  exportCommand(),
  importCommand(),
  moveCommand(),
  tokensCommand(),
]) {
  program.addCommand(command);
}
await runCommand(program);
