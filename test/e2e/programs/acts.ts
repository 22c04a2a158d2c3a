import { existsSync } from "node:fs";
import type { Task } from "../../../src/index.ts";
import { say } from "./say.ts";

/** What a task asks its worker to do. */
export type Act =
  | { do: "echo"; value?: unknown }
  /** Fails on workers with these names, or on all. Elsewhere it succeeds, after `ms` if that is set. */
  | { do: "fail"; on?: string[]; ms?: number }
  /** Kills the process. */
  | { do: "die" }
  /** Blocks the event loop. */
  | { do: "block"; ms: number }
  /** On its first attempt: blocks the event loop until this file exists. */
  | { do: "blockUntil"; file: string }
  | { do: "sleep"; ms: number }
  /** Works until its signal aborts, and throws the reason. */
  | { do: "heed" }
  /** Never ends on the first `attempts` attempts, whatever its signal says. */
  | { do: "hang"; attempts?: number }
  /** Ends when the test says so: `tell({ open: gate })`. */
  | { do: "pass"; gate: string }
  /** On its first attempt: acks when the test opens the gate, whatever its signal says, and reports the outcome. */
  | { do: "outlive"; gate: string }
  /**
   * On its first attempt: waits until this file exists, then does `verb`. The test creates the file while the process
   * is frozen. On the next attempt: ends when the test opens "thawed".
   */
  | { do: "late"; file: string; verb: "ack" | "nack" | "reject" | "release" | "extend" | "progress" };

const acts: { [Name in Act["do"]]: (act: Act & { do: Name }, task: Task<Act>, worker: string) => unknown } = {
  echo: ({ value }) => value,
  fail: async ({ on, ms }, _task, worker) => {
    if (!on || on.includes(worker)) throw new Error(`${worker} cannot do this`);
    if (ms !== undefined) await sleep(ms);
    return worker;
  },
  die: () => process.kill(process.pid, "SIGKILL"),
  block: ({ ms }) => {
    const end = performance.now() + ms;
    while (performance.now() < end);
  },
  blockUntil: ({ file }, task) => {
    while (task.attempt === 1 && !existsSync(file));
  },
  sleep: ({ ms }) => sleep(ms),
  heed: (_act, task) => aborted(task.signal),
  hang: ({ attempts }, task) => (task.attempt > (attempts ?? Infinity) ? "done" : new Promise(() => {})),
  pass: ({ gate }) => opened(gate),
  outlive: async ({ gate }, task, worker) => {
    if (task.attempt > 1) return worker;
    await opened(gate);
    say("late", { id: task.id, verb: "ack", code: await codeOf(() => doLate(task, "ack")) });
    return worker;
  },
  late: async ({ file, verb }, task, worker) => {
    if (task.attempt > 1) {
      await opened("thawed");
      return worker;
    }
    say("waiting");
    while (!existsSync(file)) await sleep(5);
    say("late", { id: task.id, verb, code: await codeOf(() => doLate(task, verb)) });
    if (verb === "extend" || verb === "progress") await aborted(task.signal);
    return worker;
  },
};

export function perform(task: Task<Act>, worker: string): unknown {
  const act = acts[task.data.do] as (act: Act, task: Task<Act>, worker: string) => unknown;
  return act(task.data, task, worker);
}

function doLate(task: Task<Act>, verb: (Act & { do: "late" })["verb"]): Promise<void> {
  switch (verb) {
    case "ack":
      return task.ack("too late");
    case "nack":
      return task.nack(new Error("too late"));
    case "reject":
      return task.reject(new Error("too late"));
    case "release":
      return task.release();
    case "extend":
      return task.extend("1h");
    case "progress":
      return task.progress(0.5);
  }
}

async function codeOf(call: () => Promise<void>): Promise<unknown> {
  try {
    await call();
    return "accepted";
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason));
  });
}

const gates = new Set<string>();
const waiting = new Set<() => void>();

process.on("message", ({ open }: { open?: string }) => {
  if (open === undefined) return;
  gates.add(open);
  for (const look of waiting) look();
});

function opened(gate: string): Promise<string> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (!gates.has(gate)) return;
      waiting.delete(look);
      resolve(gate);
    };
    waiting.add(look);
    look();
  });
}
