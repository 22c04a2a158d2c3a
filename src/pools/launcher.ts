import { type ChildProcess, spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { createInterface } from "node:readline";
import type { FromLauncher, ToLauncher } from "./launcher-messages.ts";

/**
 * A process of its own that starts the workers of a pool (processes.ts starts it). It is their parent, so it knows all
 * of them at any moment. When the supervisor is gone, even by kill -9, standard input ends, and the launcher ends the
 * workers before itself: no process is left over. Messages are lines of JSON: on standard input, and back on
 * descriptor 3.
 */
const answers = createWriteStream("", { fd: 3 });
answers.on("error", () => {});
const children = new Map<number, ChildProcess>();

/** Enough for a stack trace. */
const TAIL_CHARACTERS = 2_000;

// Ctrl-C in a terminal reaches every process. The supervisor decides when workers end.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

let stopTimeout = 30_000;
const input = createInterface({ input: process.stdin });
input.on("line", (line) => receive(JSON.parse(line) as ToLauncher));
input.on("close", () => endAll());

function receive(message: ToLauncher): void {
  if (message.kind === "configure") stopTimeout = message.stopTimeout;
  else if (message.kind === "start") start(message);
  else signalGroup(children.get(message.id), message.signal);
}

function start({ id, command, env, cwd, output }: ToLauncher & { kind: "start" }): void {
  const [program, ...args] = command as [string, ...string[]];
  // Its own process group: programs that it starts end with it.
  const child = spawn(program, args, {
    ...{ env, detached: true, ...(cwd !== undefined && { cwd }) },
    stdio: ["ignore", output === "inherit" ? "inherit" : "ignore", "pipe"],
  });
  let tail = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    if (output === "inherit") process.stderr.write(text);
    tail = (tail + text).slice(-TAIL_CHARACTERS);
  });
  // At once: the next message may already be its signal.
  children.set(id, child);
  if (child.pid !== undefined) answer({ kind: "started", id, pid: child.pid });
  child.on("error", (error) => {
    if (child.pid !== undefined) return;
    children.delete(id);
    answer({ kind: "exited", id, code: null, signal: null, tail: error.message });
  });
  child.on("exit", (code, signal) => {
    // What the program has left behind in its group ends too.
    signalGroup(child, "SIGKILL");
    children.delete(id);
    answer({ kind: "exited", id, code, signal, tail });
    if (isEnding) endIfEmpty();
  });
}

function signalGroup(child: ChildProcess | undefined, signal: NodeJS.Signals): void {
  if (child?.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch {
    // The group is gone.
  }
}

function answer(message: FromLauncher): void {
  answers.write(`${JSON.stringify(message)}\n`);
}

let isEnding = false;

function endAll(): void {
  isEnding = true;
  for (const child of children.values()) signalGroup(child, "SIGTERM");
  setTimeout(() => {
    for (const child of children.values()) signalGroup(child, "SIGKILL");
  }, stopTimeout).unref();
  endIfEmpty();
}

function endIfEmpty(): void {
  if (children.size === 0) process.exit(0);
}
