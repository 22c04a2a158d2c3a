// A server in a process of its own, as `dibs serve` starts one, that tells the test where it listens.

import { resolveConfig } from "../../../src/server/config.ts";
import { serve } from "../../../src/server/serve.ts";
import { letGo, readOptions, say } from "./say.ts";

const { config } = resolveConfig(readOptions() as object, {});
const serving = await serve(config);
process.on("SIGTERM", () => void stop());
say("ready", { url: serving.url });

async function stop(): Promise<void> {
  await serving.stop();
  say("stopped");
  letGo();
}
