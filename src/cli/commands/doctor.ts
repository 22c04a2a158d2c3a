import { Command } from "commander";
import { type AddressKind, kindOf, withoutSecrets } from "../../core/process/address.ts";
import { escapeControls } from "../../core/errors/show.ts";
import { filePathOf } from "../../engine/real-file.ts";
import { checkFile } from "../doctor/file.ts";
import { type Finding, ok, problem } from "../doctor/finding.ts";
import { checkMachine } from "../doctor/machine.ts";
import { EXIT } from "../exit.ts";
import { type Colour, paint, printJson, say } from "../output.ts";
import { addressOf, type StoreFlags, useStore, withStore } from "../store.ts";

// `dibs doctor`: runs the checks of `cli/doctor`, prints them, and exits with 1 if one finds a problem.

export function doctorCommand(): Command {
  return withStore(new Command("doctor")).action(run);
}

async function run(flags: StoreFlags): Promise<void> {
  const address = addressOf(flags.url);
  const shown = withoutSecrets(address);
  const kind = kindOf(address);
  const around = await checkAround(kind, address);
  const checks: Finding[] = [...checkMachine(shown, flags.url), ...around];
  if (!around.some(isUnreachable)) checks.push(...(await checkStore(flags)));
  const problems = checks.filter(({ status }) => status === "problem").length;
  if (problems > 0) process.exitCode = EXIT.failed;
  if (flags.json) return printJson({ address: shown, checks });
  for (const finding of checks) printFinding(finding);
  const warnings = checks.filter(({ status }) => status === "warning").length;
  say(problems + warnings === 0 ? "Nothing is wrong." : `Problems: ${problems}, warnings: ${warnings}.`);
}

/** What is around the store: its file, its database server, or the dibs server. */
async function checkAround(kind: AddressKind, address: string): Promise<Finding[]> {
  switch (kind) {
    case "file":
      return checkFile(filePathOf(address));
    case "postgres":
      return (await import("../doctor/postgres.ts")).checkPostgres(address);
    case "server":
      return (await import("../doctor/server.ts")).checkServer(address);
    case "memory":
      return [];
  }
}

/** Opening the store would only say the same again. Other problems, such as a setting, do not keep it from opening. */
function isUnreachable({ check, status }: Finding): boolean {
  return status === "problem" && ["file", "permissions", "server"].includes(check);
}

/** Opens it as a client does, which checks its version, and looks at what is in it. */
async function checkStore(flags: StoreFlags): Promise<Finding[]> {
  try {
    return await useStore(flags, async (dibs) => {
      const { checkQueues } = await import("../doctor/queues.ts");
      return [ok("store", "It can be opened, and its version is right."), ...(await checkQueues(dibs))];
    });
  } catch (error) {
    // The library's errors say what to do.
    return [problem("store", (error as Error).message, "Remove this cause, and run dibs doctor again.")];
  }
}

const SIGNS: Record<Finding["status"], [sign: string, colour: Colour]> = {
  ok: ["ok", "green"],
  warning: ["warning", "amber"],
  problem: ["problem", "red"],
};

const SIGN_WIDTH = 8;

function printFinding({ status, message, advice }: Finding): void {
  const [sign, colour] = SIGNS[status];
  process.stdout.write(`${paint(colour, sign.padEnd(SIGN_WIDTH))} ${escapeControls(message)}\n`);
  if (advice !== null) process.stdout.write(`${" ".repeat(SIGN_WIDTH)} → ${escapeControls(advice)}\n`);
}
