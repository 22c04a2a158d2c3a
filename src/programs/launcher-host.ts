import { type ChildProcess, fork } from "node:child_process";
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Host, HostOptions, ProgramStart } from "./host.ts";
import { type Ended, NotStarted, type Running } from "./launch.ts";
import type { FromLauncher, ToLauncher } from "./launcher-messages.ts";

/**
 * Has small processes start the programs: launcher.ts says why. Node blocks until a program has begun, so several
 * launchers take turns.
 *
 * @param concurrency programs that run at a time @param passesErrors whether programs have an `onError`
 */
export function startLaunchers(options: HostOptions, concurrency: number, passesErrors: boolean): Host {
  const count = Math.min(concurrency, availableParallelism(), MOST_LAUNCHERS);
  const hosts = Array.from({ length: count }, () => new LauncherHost(options, passesErrors));
  let last = 0;
  return {
    start: (task) => hosts[last++ % count]!.start(task),
    async close() {
      await Promise.all(hosts.map((host) => host.close()));
    },
  };
}

const MOST_LAUNCHERS = 4;

class LauncherHost implements Host {
  readonly #options: HostOptions;
  readonly #launcher: ChildProcess;
  readonly #exited: Promise<unknown>;
  readonly #programs = new Map<number, PromiseWithResolvers<Ended> & Pick<ProgramStart, "onError">>();
  #lastId = 0;

  constructor(options: HostOptions, passesErrors: boolean) {
    this.#options = options;
    const { command, folder, killAfter } = options;
    this.#launcher = fork(fileURLToPath(new URL("./launcher.ts", import.meta.url)), {
      env: options.env,
      execArgv: LEAN,
      serialization: "advanced",
      stdio: ["ignore", "ignore", "ignore", "ipc"],
      // Signals of the terminal must not reach it.
      detached: true,
    });
    this.#exited = new Promise((resolve) => {
      this.#launcher.once("exit", resolve);
      this.#launcher.once("error", resolve);
    });
    void this.#exited.then(() => this.#lost());
    this.#launcher.on("message", (message: FromLauncher) => this.#receive(message));
    this.#send({ kind: "configure", command, folder, killAfter, passesErrors });
  }

  start({ env, input, onError }: ProgramStart): Running {
    const id = ++this.#lastId;
    const program = { ...Promise.withResolvers<Ended>(), onError };
    if (!this.#launcher.connected) return { ...idle, ended: Promise.reject(lost()) };
    this.#programs.set(id, program);
    this.#send({ kind: "start", id, env, input });
    return {
      ended: program.promise,
      end: () => this.#send({ kind: "end", id }),
      kill: () => this.#send({ kind: "kill", id }),
    };
  }

  async close(): Promise<void> {
    if (this.#launcher.connected) this.#launcher.disconnect();
    await this.#exited;
  }

  #receive(message: FromLauncher): void {
    const program = this.#programs.get(message.id)!;
    if (message.kind === "wrote") return program.onError?.(Buffer.from(message.chunk));
    this.#programs.delete(message.id);
    if (message.kind === "ended") program.resolve(message.ended);
    else program.reject(new NotStarted(message.message));
  }

  /** Its guardian ends the programs, and removes the folder after that: until then a task must not run elsewhere. */
  async #lost(): Promise<void> {
    while (this.#programs.size > 0 && existsSync(this.#options.folder)) await sleep(POLL_MS);
    for (const program of this.#programs.values()) program.reject(lost());
    this.#programs.clear();
  }

  #send(message: ToLauncher): void {
    // Once it is gone, #lost() answers.
    if (this.#launcher.connected) this.#launcher.send(message, () => {});
  }
}

/** Options of Node that make it start faster and keep it small. */
const LEAN = ["--max-semi-space-size=1", "--v8-pool-size=0"];
const POLL_MS = 50;
const idle = { end(): void {}, kill(): void {} };

function lost(): NotStarted {
  return new NotStarted("the process that starts programs was ended");
}
