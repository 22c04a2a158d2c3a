import { Command } from "commander";
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
import { aborted, onInterrupt } from "../interrupt.ts";
import { print } from "../output.ts";

/** How another program, such as the demo, embeds this command. */
export interface Embedding {
  /** How `dibs` is called there. The lines to try next are then printed even without a terminal. */
  dibs: string;
  /** Starts something next to the server. The returned function ends it, before the server stops. */
  start(serving: Serving, flags: object): () => Promise<void>;
}

export function serveCommand(embedding?: Embedding): Command {
  const command = new Command("serve");
  for (const [name, setting] of Object.entries(SETTINGS) as [SettingName, Setting][]) {
    const about = `${setting.about} (${variableOf(name)}${describeDefault(setting.default)})`;
    if (setting.takes === null) command.option(flagOf(name), about);
    else if (setting.takes === "LIST") command.option(`${flagOf(name)} <text...>`, about);
    else command.option(`${flagOf(name)} <${setting.takes.toLowerCase()}>`, about);
  }
  return command
    .option("--config <path>", "a JSON file with settings under these names (DIBS_CONFIG)")
    .option("--print-config", "print every setting and where it came from, and end")
    .action((flags: Flags) => run(flags, embedding));
}

function describeDefault(unless: Setting["default"]): string {
  return typeof unless === "string" || typeof unless === "number" ? `; ${unless}` : "";
}

type Flags = Partial<Record<SettingName, unknown>> & { config?: string; printConfig?: boolean };

async function run(given: Flags, embedding?: Embedding): Promise<void> {
  const { config: file, printConfig: isPrinted, ...flags } = given;
  const resolved = resolveConfig(flags, process.env, file ?? (process.env["DIBS_CONFIG"] || undefined));
  if (isPrinted) return printConfig(resolved).split("\n").forEach(print);
  // Loaded only here, so that other commands start faster.
  const { serve } = await import("../../server/serve.ts");
  const serving = await serve(resolved.config);
  // Before the address is printed: a program that reads it may stop the server at once.
  const { signal } = onInterrupt("Draining");
  print(`dibs listens on ${serving.url}`);
  if (embedding || process.stdout.isTTY) printFirstSteps(serving, embedding?.dibs ?? "dibs");
  const endOther = embedding?.start(serving, given);
  await aborted(signal);
  await endOther?.();
  await serving.stop();
}

function printFirstSteps({ url, asksForTokens }: Serving, dibs: string): void {
  const token = asksForTokens ? "DIBS_TOKEN=… " : "";
  print("Three lines to try next:");
  print(`  ${token}${dibs} add emails '{"to":"ada@example.com"}' --url ${url}`);
  print(`  ${token}${dibs} queues --url ${url}`);
  print(`  curl ${url}/docs`);
}
