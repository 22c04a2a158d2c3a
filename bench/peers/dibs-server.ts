import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Service } from "../contender.ts";
import { freePort, freePorts, startProgram, startServer } from "./server.ts";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

/** `dibs serve` with its defaults. */
export async function serveDibs(folder: string): Promise<Service> {
  const port = await freePort();
  const flags = serverFlags(join(folder, "bench.db"), port);
  const stop = await startServer(process.execPath, [MAIN, "serve", ...flags], port);
  return { address: `http://127.0.0.1:${port}`, stop };
}

/** The same with the AMQP door, for AMQP clients. */
export async function serveDibsAmqp(folder: string): Promise<Service> {
  const [port, http] = (await freePorts(2)) as [number, number];
  const flags = [...serverFlags(join(folder, "bench.db"), http), "--amqp", "--amqp-port", `${port}`];
  const { pid, stop } = await startProgram(process.execPath, [MAIN, "serve", ...flags], port);
  return { address: `amqp://guest:guest@127.0.0.1:${port}`, group: pid, stop };
}

export function serverFlags(path: string, port: number): string[] {
  return ["--url", path, "--port", `${port}`, "--log-level", "warn"];
}
