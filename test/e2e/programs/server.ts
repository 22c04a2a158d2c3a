// A server in its own process, as `dibs serve` starts one, that tells the test its address.

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
