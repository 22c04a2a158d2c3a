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
import { print } from "../store.ts";

export function serveCommand(): Command {
  const command = new Command("serve").description("serve a store to any number of clients");
  for (const [name, setting] of Object.entries(SETTINGS) as [SettingName, Setting][]) {
    const about = `${setting.about} (${variableOf(name)}${describeDefault(setting.unless)})`;
    if (setting.takes === null) command.option(flagOf(name), about);
    else if (setting.takes === "LIST") command.option(`${flagOf(name)} <text...>`, about);
    else command.option(`${flagOf(name)} <${setting.takes.toLowerCase()}>`, about);
  }
  return command
    .option("--config <path>", "a JSON file with settings under these names (DIBS_CONFIG)")
    .option("--print-config", "print every setting and where it came from, and end")
    .action(run);
}

function describeDefault(unless: Setting["unless"]): string {
  return typeof unless === "string" || typeof unless === "number" ? `; ${unless}` : "";
}

type Flags = Partial<Record<SettingName, unknown>> & { config?: string; printConfig?: boolean };

async function run({ config: file, printConfig: isPrinted, ...flags }: Flags): Promise<void> {
  const resolved = resolveConfig(flags, process.env, file ?? (process.env["DIBS_CONFIG"] || undefined));
  if (isPrinted) return print(printConfig(resolved));
  // Loaded when it is needed: other commands start faster without it.
  const { serve } = await import("../../server/serve.ts");
  const serving = await serve(resolved.config);
  print(`dibs listens on ${serving.url}`);
  if (process.stdout.isTTY) printFirstSteps(serving);
  await stopped(serving);
}

function printFirstSteps({ url, asksForTokens }: Serving): void {
  const token = asksForTokens ? "DIBS_TOKEN=… " : "";
  print("Three lines to try next:");
  print(`  ${token}dibs add emails '{"to":"ada@example.com"}' --url ${url}`);
  print(`  ${token}dibs queues --url ${url}`);
  print(`  curl ${url}/readyz`);
}

/** Until a signal says so. A second one does not wait for clients. */
async function stopped(serving: Serving): Promise<void> {
  await new Promise<void>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => resolve());
  });
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => process.exit(1));
  await serving.stop();
}
