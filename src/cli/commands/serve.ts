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

/** How the command is started elsewhere than by `dibs`. */
export interface Surroundings {
  /** How `dibs` is called there: the lines to try next are printed, also where no terminal reads them. */
  dibs: string;
  /** Starts something beside the server; what it answers ends that, before the server stops. */
  start(serving: Serving, flags: object): () => Promise<void>;
}

export function serveCommand(surroundings?: Surroundings): Command {
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
    .action((flags: Flags) => run(flags, surroundings));
}

function describeDefault(unless: Setting["unless"]): string {
  return typeof unless === "string" || typeof unless === "number" ? `; ${unless}` : "";
}

type Flags = Partial<Record<SettingName, unknown>> & { config?: string; printConfig?: boolean };

async function run(given: Flags, surroundings?: Surroundings): Promise<void> {
  const { config: file, printConfig: isPrinted, ...flags } = given;
  const resolved = resolveConfig(flags, process.env, file ?? (process.env["DIBS_CONFIG"] || undefined));
  if (isPrinted) return printConfig(resolved).split("\n").forEach(print);
  // Loaded when it is needed: other commands start faster without it.
  const { serve } = await import("../../server/serve.ts");
  const serving = await serve(resolved.config);
  // Before it is printed: whoever reads that it listens may stop it in that moment.
  const signalled = hearSignal();
  print(`dibs listens on ${serving.url}`);
  if (surroundings || process.stdout.isTTY) printFirstSteps(serving, surroundings?.dibs ?? "dibs");
  const endOther = surroundings?.start(serving, given);
  await signalled;
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

/** Resolves with the first signal to stop. A second one does not wait for clients. */
function hearSignal(): Promise<void> {
  let isStopping = false;
  return new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const)
      process.on(signal, () => {
        if (isStopping) process.exit(1);
        isStopping = true;
        resolve();
      });
  });
}
