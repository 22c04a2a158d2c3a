import type { Command } from "commander";
import { invalid } from "../core/errors/errors.ts";
import { escapeControls } from "../core/errors/show.ts";
import { ShellError } from "./exit.ts";
import { say } from "./output.ts";

/** How commands ask before they destroy something. */
export interface ConfirmFlags {
  yes?: boolean;
  dryRun?: boolean;
}

export function withConfirmation(command: Command): Command {
  return command
    .option("--yes", "do not ask for confirmation")
    .option("--dry-run", "print what would be done, and change nothing");
}

/**
 * Returns whether to do it: false for a dry run. `what` names what happens and to how many, as in "Purge 214 tasks of
 * emails". Without a terminal there is no one to ask, so the command is refused unless it has --yes.
 */
export async function confirm(what: string, { yes = false, dryRun = false }: ConfirmFlags): Promise<boolean> {
  if (dryRun) {
    say(`Dry run, nothing is changed: ${what}.`);
    return false;
  }
  if (yes) return true;
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw invalid(`${what}? There is no terminal to ask: confirm with --yes, or look first with --dry-run.`);
  // Loaded only here, so that other commands start faster.
  const prompts = await import("@clack/prompts");
  const answer = await prompts.confirm({
    message: `${escapeControls(what)}?`,
    initialValue: false,
    output: process.stderr,
  });
  if (answer !== true) throw new ShellError("declined", "Nothing was changed.");
  return true;
}
