import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { hostname } from "node:os";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { ownFile } from "../core/process/own-files.ts";
import type { WorkerRecord } from "../core/task/task.ts";
import type { Actuator } from "./actuator.ts";
import { Crashes } from "./crashes.ts";
import type { Decision, Observed } from "./decide.ts";
import type { FromLauncher, ToLauncher } from "./launcher-messages.ts";
import { groupOf, LAUNCHER_VARIABLE, markOf, nameOfLauncher, type ProcessMark } from "./process-facts.ts";

/** The workers of a pool as processes of this machine. Pool uses it, and it starts launcher.ts. */
export interface ProcessOptions {
  command: readonly string[];
  /** A drone ends after one task, which is no crash. */
  kind: "program" | "drone";
  max: number;
  stopTimeout: number;
  env: Record<string, string>;
  cwd: string | undefined;
  output: "inherit" | "ignore";
}

interface Process {
  id: number;
  /** null until the launcher has started it. */
  pid: number | null;
  startedAt: number;
  hasJoined: boolean;
  claims: number;
  isEnding: boolean;
}

/** `dibs work --once`: the task succeeded, the task failed, no task came. */
const DRONE_ENDS: ReadonlySet<number | null> = new Set([0, 7, 8]);
/** A worker that lived this long has not crashed in its start. */
const STARTED_WELL_MS = 10_000;
/** A program that has not joined as a worker after this time is taken for one that never does. */
const JOINS_WITHIN_MS = 30_000;

export class LocalProcesses implements Actuator {
  readonly #options: ProcessOptions;
  readonly #processes = new Map<number, Process>();
  readonly #crashes = new Crashes();
  #news: string[] = [];
  #nextId = 1;
  #launcher: ChildProcess | undefined;
  #launcherMark: ProcessMark | null = null;
  #isStopping = false;
  readonly #emptied = new Set<() => void>();

  constructor(options: ProcessOptions) {
    this.#options = options;
  }

  get launcher(): ProcessMark | null {
    return this.#launcherMark;
  }

  get processes(): number {
    return this.#processes.size;
  }

  prepare(): void {
    this.#launcher ??= this.#startLauncher();
  }

  observe(workers: readonly WorkerRecord[]): Observed["workers"] {
    this.#match(workers);
    const now = performance.now();
    const all = this.#of(({ isEnding }) => !isEnding);
    const live = all.filter(({ hasJoined, startedAt }) => hasJoined || now - startedAt > JOINS_WITHIN_MS);
    return {
      live: live.length,
      starting: all.length - live.length,
      busy: live.filter(({ claims }) => claims > 0).length,
    };
  }

  /** A worker's process is in the group of the process that the launcher started, or is that process. */
  #match(workers: readonly WorkerRecord[]): void {
    const host = hostname();
    const claims = new Map<number, number>();
    for (const worker of workers)
      if (worker.host === host) {
        const group = groupOf(worker.pid);
        claims.set(group, (claims.get(group) ?? 0) + worker.claims);
      }
    for (const each of this.#processes.values()) {
      const held = each.pid === null ? undefined : claims.get(each.pid);
      if (held !== undefined && !each.hasJoined) this.#crashes.reset();
      each.hasJoined ||= held !== undefined;
      each.claims = held ?? 0;
    }
  }

  async resize({ size }: Decision): Promise<string[]> {
    const active = this.#of(({ isEnding }) => !isEnding);
    const room = this.#options.max - this.#processes.size;
    const missing = Math.min(size - active.length, room);
    for (let count = 0; count < missing && this.#crashes.mayStart(performance.now()); count++) this.#start();
    this.#end(active, active.length - size);
    const news = this.#news;
    this.#news = [];
    return news;
  }

  /** Idle ones only: first those that have not joined yet, then the newest. */
  #end(active: Process[], count: number): void {
    const idle = active.filter(({ claims }) => claims === 0);
    const order = idle.toSorted((a, b) => Number(a.hasJoined) - Number(b.hasJoined) || b.id - a.id);
    for (const each of order.slice(0, Math.max(0, count))) this.#terminate(each);
  }

  #terminate(each: Process): void {
    each.isEnding = true;
    this.#send({ kind: "signal", id: each.id, signal: "SIGTERM" });
    const kill = (): void => this.#send({ kind: "signal", id: each.id, signal: "SIGKILL" });
    setTimeout(() => {
      if (this.#processes.has(each.id)) kill();
    }, this.#options.stopTimeout).unref();
  }

  #start(): void {
    const id = this.#nextId++;
    const { command, env, cwd, output } = this.#options;
    const fresh = { id, pid: null, hasJoined: false, claims: 0, isEnding: false };
    this.#processes.set(id, { ...fresh, startedAt: performance.now() });
    this.prepare();
    const launcher = this.#launcherMark && { [LAUNCHER_VARIABLE]: nameOfLauncher(this.#launcherMark) };
    this.#send({
      ...{ kind: "start", id, command: [...command], output },
      env: { ...process.env, ...env, ...launcher },
      ...(cwd !== undefined && { cwd }),
    });
  }

  #send(message: ToLauncher): void {
    this.#launcher ??= this.#startLauncher();
    this.#launcher.stdin!.write(`${JSON.stringify(message)}\n`);
  }

  #startLauncher(): ChildProcess {
    const file = fileURLToPath(ownFile("./launcher.ts", import.meta.url));
    const launcher = spawn(process.execPath, [file], {
      // Detached: Ctrl-C in a terminal goes to the supervisor only.
      detached: true,
      stdio: ["pipe", "inherit", "inherit", "pipe"],
    });
    // The supervisor's own loop keeps the process alive, not its launcher.
    launcher.unref();
    launcher.stdin!.on("error", () => {});
    (launcher.stdin as unknown as { unref?: () => void }).unref?.();
    const answers = launcher.stdio[3] as NodeJS.ReadableStream & { unref?: () => void };
    answers.unref?.();
    createInterface({ input: answers }).on("line", (line) => this.#receive(JSON.parse(line) as FromLauncher));
    launcher.on("exit", () => this.#launcherEnded(launcher));
    launcher.on("error", () => this.#launcherEnded(launcher));
    this.#launcherMark = launcher.pid === undefined ? null : markOf(launcher.pid);
    const { stopTimeout } = this.#options;
    launcher.stdin!.write(`${JSON.stringify({ kind: "configure", stopTimeout } satisfies ToLauncher)}\n`);
    return launcher;
  }

  /** The launcher was killed. Its workers have no parent that ends them, so this process does it. */
  #launcherEnded(launcher: ChildProcess): void {
    if (this.#launcher !== launcher) return;
    this.#launcher = undefined;
    this.#launcherMark = null;
    for (const { pid } of this.#processes.values()) if (pid !== null) killGroup(pid);
    if (this.#processes.size > 0 && !this.#isStopping)
      this.#news.push(`The launcher of the workers has ended; its workers were ended, and start again.`);
    this.#processes.clear();
    this.#reportEmpty();
  }

  #receive(message: FromLauncher): void {
    const each = this.#processes.get(message.id);
    if (!each) return;
    if (message.kind === "started") each.pid = message.pid;
    else this.#exited(each, message);
  }

  #exited(each: Process, { code, signal, tail }: FromLauncher & { kind: "exited" }): void {
    this.#processes.delete(each.id);
    this.#reportEmpty();
    if (each.isEnding || this.#isStopping) return;
    const now = performance.now();
    const lived = now - each.startedAt;
    if (this.#options.kind === "drone" && DRONE_ENDS.has(code)) return this.#crashes.reset();
    if (code === 0 && lived >= STARTED_WELL_MS) return;
    const how = signal === null ? (code === null ? "without starting" : `with code ${code}`) : `by ${signal}`;
    this.#news.push(this.#crashes.add(now, lived, how, tail));
  }

  #reportEmpty(): void {
    if (this.#processes.size === 0) for (const resolve of this.#emptied) resolve();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const each of this.#of(({ isEnding }) => !isEnding)) this.#terminate(each);
    if (this.#processes.size > 0) await new Promise<void>((resolve) => this.#emptied.add(resolve));
    const launcher = this.#launcher;
    if (!launcher) return;
    launcher.ref();
    const ended = once(launcher, "exit");
    launcher.stdin!.end();
    await ended;
  }

  #of(which: (each: Process) => boolean): Process[] {
    return [...this.#processes.values()].filter(which);
  }
}

export function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It is gone.
  }
}
