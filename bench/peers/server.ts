import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** A busy machine needs more than a minute to start an Erlang server. */
const START_TIMEOUT_MS = 110_000;
const STOP_TIMEOUT_MS = 10_000;
/** Debian installs servers outside the usual PATH. */
const FOLDERS = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin", "/usr/local/sbin"];

const running = new Set<ChildProcess>();

export function findProgram(name: string): string | undefined {
  return FOLDERS.map((folder) => join(folder, name)).find(isProgram);
}

/** Describes which program is missing, and how to install it. */
export function missingProgram(name: string, debianPackage = name): string | undefined {
  if (findProgram(name) !== undefined) return undefined;
  return `${name} is not installed (Debian: apt-get install --no-install-recommends ${debianPackage})`;
}

export async function freePort(): Promise<number> {
  const [port] = await freePorts(1);
  return port!;
}

/** All ports in one call, so that none is returned twice. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"));
  await Promise.all(servers.map((server) => once(server, "listening")));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  for (const server of servers) server.close();
  await Promise.all(servers.map((server) => once(server, "close")));
  return ports;
}

/** Starts a program in its own process group, and resolves when it listens on the port. */
export async function startServer(
  program: string,
  args: string[],
  port: number,
  env: Record<string, string> = {},
): Promise<() => Promise<void>> {
  const { stop } = await startProgram(program, args, port, env);
  return stop;
}

/** The same, and returns the process id. */
export async function startProgram(
  program: string,
  args: string[],
  port: number,
  env: Record<string, string> = {},
): Promise<{ pid: number; stop: () => Promise<void> }> {
  const child = spawn(findProgram(program) ?? program, args, {
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
    env: { ...process.env, ...env },
  });
  running.add(child);
  child.once("exit", () => running.delete(child));
  const lastWords = listen(child);
  await once(child, "spawn");
  try {
    await listening(child, port);
  } catch (error) {
    await stop(child);
    throw new Error(`${program} did not start: ${(error as Error).message}\n${lastWords()}`, {
      cause: error,
    });
  }
  return { pid: child.pid!, stop: () => stop(child) };
}

/** Its last output, for error messages. */
function listen(child: ChildProcess): () => string {
  let words = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => (words = (words + text).slice(-2_000)));
  }
  return () => words;
}

/** For the end of this process: no server outlives it. */
export function stopAll(): void {
  for (const child of running) signalGroup(child, "SIGKILL");
}

async function listening(child: ChildProcess, port: number): Promise<void> {
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (Date.now() < deadline) {
    if (hasEnded(child)) throw new Error(`it ended with ${child.exitCode ?? child.signalCode}`);
    if (await accepts(port)) return;
    await sleep(20);
  }
  throw new Error(`nothing listens on port ${port} after ${START_TIMEOUT_MS} ms`);
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
}

async function stop(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const ended = once(child, "exit");
  signalGroup(child, "SIGTERM");
  await Promise.race([ended, sleep(STOP_TIMEOUT_MS, undefined, { ref: false })]);
  if (hasEnded(child)) return;
  signalGroup(child, "SIGKILL");
  await ended;
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/** The group, because some servers are started by a shell script. */
function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    process.kill(-child.pid!, signal);
  } catch {
    // It ended by itself.
  }
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
