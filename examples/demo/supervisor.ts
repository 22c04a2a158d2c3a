// Starts, stops and kills the demo's processes. They share one file and nothing else.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Added } from "./queue.ts";

export type WorkerState = "starting" | "working" | "stopping" | "stopped" | "killed";

export interface WorkerProcess {
  name: string;
  pid: number;
  state: WorkerState;
  process: ChildProcess;
}

/** A child that has not ended by then is killed. */
const PATIENCE_MS = 12_000;

export class Supervisor {
  /** In the order in which their names were first used. */
  readonly workers = new Map<string, WorkerProcess>();
  readonly #path: string;
  readonly #producer: ChildProcess;
  #closing = false;

  constructor(path: string, onAdded: (added: Added) => void, onTrouble: (what: string) => void) {
    this.#path = path;
    this.#producer = this.#fork("producer.ts", [path]);
    this.#producer.on("message", (added) => onAdded(added as Added));
    this.#producer.once("exit", (code) => {
      if (!this.#closing && code !== 0) onTrouble(`the producer ended with code ${code}`);
    });
  }

  /** Processes alive, this one included. */
  get alive(): number {
    const children = [this.#producer, ...[...this.workers.values()].map((worker) => worker.process)];
    return 1 + children.filter(isAlive).length;
  }

  setRate(perSecond: number): void {
    if (this.#producer.connected) this.#producer.send(perSecond);
  }

  start(name: string, options: { clumsy?: boolean } = {}): void {
    const child = this.#fork("worker.ts", [this.#path, name, ...(options.clumsy ? ["--clumsy"] : [])]);
    const worker: WorkerProcess = { name, pid: child.pid ?? 0, state: "starting", process: child };
    child.once("message", () => {
      if (worker.state === "starting") worker.state = "working";
    });
    child.once("exit", () => {
      if (worker.state !== "killed") worker.state = "stopped";
    });
    this.workers.set(name, worker);
  }

  /** Its worker finishes what it has started and releases the rest. */
  stop(name: string): void {
    const worker = this.#working(name);
    if (!worker) return;
    worker.state = "stopping";
    worker.process.kill("SIGTERM");
  }

  /** Ends it like a crash: it cannot do anything more. */
  async kill(name: string): Promise<void> {
    const worker = this.#working(name);
    if (!worker) return;
    worker.state = "killed";
    const ended = once(worker.process, "exit");
    worker.process.kill("SIGKILL");
    await ended;
  }

  async stopProducer(): Promise<void> {
    this.#closing = true;
    await end(this.#producer);
  }

  async close(): Promise<void> {
    this.#closing = true;
    for (const name of this.workers.keys()) this.stop(name);
    await Promise.all([
      end(this.#producer),
      ...[...this.workers.values()].map((worker) => end(worker.process)),
    ]);
  }

  #working(name: string): WorkerProcess | undefined {
    const worker = this.workers.get(name);
    return worker && isAlive(worker.process) ? worker : undefined;
  }

  #fork(file: string, args: string[]): ChildProcess {
    return fork(join(import.meta.dirname, file), args, { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  }
}

function isAlive(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}

async function end(child: ChildProcess): Promise<void> {
  if (!isAlive(child)) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
  await ended;
  clearTimeout(timer);
}
