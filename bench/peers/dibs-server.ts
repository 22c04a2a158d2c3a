import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Service } from "../contender.ts";
import { freePort, startServer } from "./server.ts";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

/** `dibs serve` with its defaults. */
export async function serveDibs(folder: string): Promise<Service> {
  const port = await freePort();
  const flags = serverFlags(join(folder, "bench.db"), port);
  const stop = await startServer(process.execPath, [MAIN, "serve", ...flags], port);
  return { address: `http://127.0.0.1:${port}`, stop };
}

export function serverFlags(path: string, port: number): string[] {
  return ["--url", path, "--port", `${port}`, "--log-level", "warn"];
}
