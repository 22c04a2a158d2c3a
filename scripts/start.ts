// npm start: a server on a file, as `dibs serve` starts it, and on request the traffic of `dibs demo`.

import { Command } from "commander";
import { enableCompileCache, getCompileCacheDir } from "node:module";

// Compiled once and not on every start, which halves the start-up time. Threads and the demo's processes get the
// setting from the environment.
enableCompileCache();
process.env["NODE_COMPILE_CACHE"] ??= getCompileCacheDir();
const { printFirstSteps, serve, withServeFlags } = await import("../src/cli/commands/serve.ts");
const { runCommand } = await import("../src/cli/run.ts");

const command = withServeFlags(new Command("npm start --"))
  .option("--demo", "the traffic of `dibs demo` next to the server")
  .action(async ({ demo, ...flags }: { demo?: true }) => {
    if (demo) return (await import("../src/cli/commands/demo.ts")).serveWithDemo(flags);
    // The output is for people, so routine log lines are left out.
    process.env["DIBS_LOG_LEVEL"] ??= "warn";
    await serve(flags, printFirstSteps);
  });

await runCommand(command);
