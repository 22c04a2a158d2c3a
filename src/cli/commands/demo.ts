import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { kindOf } from "../../core/process/address.ts";
import { type Demo, DEMO_LIMITS, type DemoSettings, startDemo } from "../../demo/start.ts";
import { DIBS } from "../called-as.ts";
import { aborted, onInterrupt } from "../interrupt.ts";
import { print, say } from "../output.ts";
import { numberBetween } from "../values.ts";
import { serve, type ServeFlags, withServeFlags } from "./serve.ts";

type Flags = ServeFlags & DemoSettings & { url?: string };

/** A server with the traffic of the demo next to it. A server that runs already gets only the traffic. */
export function demoCommand(): Command {
  const { rate, workers } = DEMO_LIMITS;
  const command = withServeFlags(new Command("demo"));
  command.options.find(({ long }) => long === "--url")!.description =
    "the store, or a server that gets only the traffic; a temporary file unless set";
  return command
    .option("--rate <number>", `emails per second, up to ${rate}; default 20`, numberBetween(0, rate))
    .option(
      "--workers <number>",
      `processes that send them, up to ${workers}; default 3`,
      numberBetween(0, workers),
    )
    .action(async ({ rate, workers, ...flags }: Flags) => {
      const settings = { rate, workers };
      if (flags.url === undefined)
        await onTemporaryStore((url) => serveWithDemo({ ...flags, url }, settings));
      else if (kindOf(flags.url) === "server") await joinServer(flags.url, settings);
      else await serveWithDemo(flags, settings);
    });
}

/** Not the store of DIBS_URL: it may contain real work. */
async function onTemporaryStore(run: (url: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "dibs-demo-"));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  // After the second Ctrl-C, nothing else is executed.
  process.once("exit", remove);
  try {
    await run(join(folder, "work.db"));
  } finally {
    process.off("exit", remove);
    remove();
  }
}

/** `npm start -- --demo` calls it too. */
export async function serveWithDemo(flags: ServeFlags, settings: DemoSettings = {}): Promise<void> {
  // The output is for people. With any other level, the audit log would report each redrive of the demo.
  const logLevel = flags.logLevel ?? process.env["DIBS_LOG_LEVEL"] ?? "silent";
  await serve({ ...flags, logLevel }, async ({ url, steerDemo }) => {
    const demo = await start(url, settings);
    steerDemo(demo);
    return () => demo.stop();
  });
}

async function joinServer(url: string, settings: DemoSettings): Promise<void> {
  const { signal } = onInterrupt("Ending the processes of the demo");
  const demo = await start(url, settings);
  await aborted(signal);
  await demo.stop();
}

async function start(url: string, settings: DemoSettings): Promise<Demo> {
  const demo = await startDemo({ url, logger: { warn: say, error: say }, ...settings });
  print("The demo runs: a small shop whose processes add work, do it, fail and crash. Ctrl-C ends it.");
  print("Four lines to look at it, in another terminal:");
  for (const verb of ["top", "queues", "pools researchers", "dead patterns webhooks"])
    print(`  ${DIBS} ${verb} --url ${url}`);
  return demo;
}
