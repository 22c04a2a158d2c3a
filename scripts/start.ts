// npm start: a server on a file, as `dibs serve` starts it, and on request the traffic of the demo.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { enableCompileCache, getCompileCacheDir } from "node:module";
import { fileURLToPath } from "node:url";

// Compiled once and not on every start, which halves the start-up time. Threads get the setting from the environment.
enableCompileCache();
process.env["NODE_COMPILE_CACHE"] ??= getCompileCacheDir();
const { serveCommand } = await import("../src/cli/commands/serve.ts");
const { runCommand } = await import("../src/cli/run.ts");

const DEMO = fileURLToPath(new URL("../examples/demo/main.ts", import.meta.url));

// The output is for people, so routine log lines are left out.
process.env["DIBS_LOG_LEVEL"] ??= "warn";

const command = serveCommand({ dibs: "./dibs", start: startDemo })
  .name("npm start --")
  .option("--demo [seconds]", "the demo's traffic beside the server, for 45 s unless set");

await runCommand(command);

/** A separate process, an ordinary client. The server continues after it ends. */
function startDemo({ url }: { url: string }, flags: { demo?: string | true }): () => Promise<void> {
  if (flags.demo === undefined) return async () => {};
  const seconds = flags.demo === true ? [] : ["--seconds", flags.demo];
  const child = spawn(process.execPath, [DEMO, "--url", url, ...seconds], { stdio: "inherit" });
  const ended = once(child, "exit");
  return async () => {
    child.kill("SIGTERM");
    await ended;
  };
}
