import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { ownFile } from "../core/process/own-files.ts";
import type { HostOptions, ProgramStart } from "./host.ts";
import { type Ended, NotStarted, type Running } from "./launch.ts";
import type { FromLauncher, ToLauncher } from "./launcher-messages.ts";
import type { Launcher } from "./launchers.ts";

/** Has a small process of Node start the programs: launcher.ts says why. Used where there is no Perl. */
export class NodeHost implements Launcher {
  readonly exited: Promise<unknown>;
  readonly #launcher: ChildProcess;
  readonly #programs = new Map<number, PromiseWithResolvers<Ended> & Pick<ProgramStart, "onError">>();
  #lastId = 0;

  constructor(options: HostOptions, passesErrors: boolean) {
    const { command, folder, killAfter } = options;
    this.#launcher = fork(fileURLToPath(ownFile("./node-launcher.ts", import.meta.url)), {
      env: options.env,
      execArgv: LEAN,
      serialization: "advanced",
      stdio: ["ignore", "ignore", "ignore", "ipc"],
      // Signals of the terminal must not reach it.
      detached: true,
    });
    this.exited = new Promise((resolve) => {
      this.#launcher.once("exit", resolve);
      this.#launcher.once("error", resolve);
    });
    this.#launcher.on("message", (message: FromLauncher) => this.#receive(message));
    this.#send({ kind: "configure", command, folder, killAfter, passesErrors });
  }

  get active(): number {
    return this.#programs.size;
  }

  start({ env, input, onError }: ProgramStart): Running | undefined {
    if (!this.#launcher.connected) return undefined;
    const id = ++this.#lastId;
    const program = { ...Promise.withResolvers<Ended>(), onError };
    this.#programs.set(id, program);
    this.#send({ kind: "start", id, env, input });
    return {
      ended: program.promise,
      end: () => this.#send({ kind: "end", id }),
      kill: () => this.#send({ kind: "kill", id }),
    };
  }

  fail(error: NotStarted): void {
    for (const program of this.#programs.values()) program.reject(error);
    this.#programs.clear();
  }

  close(): void {
    if (this.#launcher.connected) this.#launcher.disconnect();
  }

  #receive(message: FromLauncher): void {
    const program = this.#programs.get(message.id)!;
    if (message.kind === "wrote") return program.onError?.(Buffer.from(message.chunk));
    this.#programs.delete(message.id);
    if (message.kind === "ended") program.resolve(message.ended);
    else program.reject(new NotStarted(message.message));
  }

  #send(message: ToLauncher): void {
    // Once it is gone, `exited` says so.
    if (this.#launcher.connected) this.#launcher.send(message, () => {});
  }
}

/** Options of Node that make it start faster and keep it small. */
const LEAN = ["--max-semi-space-size=1", "--v8-pool-size=0"];
