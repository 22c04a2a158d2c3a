// npm start: the server on a file, as `dibs serve` starts it, and on request the demo's traffic beside it.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { enableCompileCache, getCompileCacheDir } from "node:module";
import { fileURLToPath } from "node:url";

// Compiled once and not on every start: it is ready in half the time. Threads are told by the environment.
enableCompileCache();
process.env["NODE_COMPILE_CACHE"] ??= getCompileCacheDir();
const { serveCommand } = await import("../src/cli/commands/serve.ts");
const { runCommand } = await import("../src/cli/run.ts");

const DEMO = fileURLToPath(new URL("../examples/demo/main.ts", import.meta.url));

// Between lines for people there is no room for those of every day.
process.env["DIBS_LOG_LEVEL"] ??= "warn";

const command = serveCommand({ dibs: "npx node src/cli/main.ts", start: startDemo })
  .name("npm start --")
  .option("--demo [seconds]", "the demo's traffic beside the server, for 45 s unless set");

await runCommand(command);

/** A process of its own, a client like any other. The server goes on when it is over. */
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
