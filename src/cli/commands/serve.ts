import { Command } from "commander";
import { keepYoungSmall } from "../../server/bound-heap.ts";
import {
  flagOf,
  printConfig,
  resolveConfig,
  type Setting,
  type SettingName,
  SETTINGS,
  variableOf,
} from "../../server/config.ts";
import type { Serving } from "../../server/serve.ts";
import { DIBS } from "../called-as.ts";
import { formatDuration } from "../human.ts";
import { aborted, onInterrupt } from "../interrupt.ts";
import { print } from "../output.ts";

/**
 * Called when the server runs: prints what to try next, and may start something next to it, such as the demo. Returns
 * how that is ended, which happens before the server stops.
 */
export type Companion = (serving: Serving) => Promise<(() => Promise<void>) | undefined>;

export type ServeFlags = Partial<Record<SettingName, unknown>> & { config?: string; printConfig?: boolean };

export function serveCommand(): Command {
  return withServeFlags(new Command("serve")).action((flags: ServeFlags) => serve(flags, printHints));
}

export function withServeFlags(command: Command): Command {
  for (const [name, setting] of Object.entries(SETTINGS) as [SettingName, Setting][]) {
    const about = `${setting.about} (${variableOf(name)}${describeDefault(setting)})`;
    if (setting.takes === null) command.option(flagOf(name), about);
    else if (setting.takes === "LIST") command.option(`${flagOf(name)} <text...>`, about);
    else command.option(`${flagOf(name)} <${setting.takes.toLowerCase()}>`, about);
  }
  return command
    .option("--config <path>", "a JSON file with settings under these names (DIBS_CONFIG)")
    .option("--print-config", "print every setting and where it came from, and end");
}

function describeDefault({ default: unless, takes }: Setting): string {
  if (typeof unless === "number" && takes === "DURATION") return `; ${formatDuration(unless)}`;
  return typeof unless === "string" || typeof unless === "number" ? `; ${unless}` : "";
}

/** Until Ctrl-C. */
export async function serve(given: ServeFlags, companion: Companion): Promise<void> {
  const { config: file, printConfig: isPrinted, ...flags } = given;
  const resolved = resolveConfig(flags, process.env, file ?? (process.env["DIBS_CONFIG"] || undefined));
  if (isPrinted) return printConfig(resolved).split("\n").forEach(print);
  keepYoungSmall();
  // Loaded only here, so that other commands start faster.
  const server = await import("../../server/serve.ts");
  const serving = await server.serve(resolved.config);
  // Before the address is printed: a program that reads it may stop the server at once.
  const { signal } = onInterrupt("Draining");
  try {
    print(`dibs listens on ${serving.url}`);
    const endCompanion = await companion(serving);
    await aborted(signal);
    await endCompanion?.();
  } finally {
    await serving.stop();
  }
}

async function printHints(serving: Serving): Promise<undefined> {
  if (process.stdout.isTTY) await printFirstSteps(serving);
}

export async function printFirstSteps({ url, asksForTokens }: Serving): Promise<undefined> {
  const token = asksForTokens ? "DIBS_TOKEN=… " : "";
  print("Three lines to try next:");
  print(`  ${token}${DIBS} add emails '{"to":"ada@example.com"}' --url ${url}`);
  print(`  ${token}${DIBS} queues --url ${url}`);
  print(`  curl ${url}/docs`);
}
