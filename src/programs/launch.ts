import { type ChildProcess, spawn } from "node:child_process";
import { type Captured, Head, Tail } from "./output.ts";

/**
 * Starts one program in a process group of its own, feeds and reads it, and ends the whole group. host.ts calls it for
 * each task.
 */

export interface Launch {
  command: readonly string[];
  env: Record<string, string>;
  input: string | Uint8Array;
  /** Milliseconds between TERM and KILL. */
  killAfter: number;
  /** Called with the process group as soon as it exists. */
  onStart: (group: number) => void;
  /** Called with each chunk that the program writes to standard error. */
  onError?: ((chunk: Buffer) => void) | undefined;
}

export interface Ended {
  /** Null if a signal ended it. */
  code: number | null;
  signal: NodeJS.Signals | null;
  output: Captured;
  errors: Captured;
}

/** A program that was started. */
export interface Running {
  /** Rejects with NotStarted. */
  readonly ended: Promise<Ended>;
  /** TERM for the whole group; KILL if it has not ended in time. */
  end(): void;
  kill(): void;
}

/** The program could not be started: it is missing, is not executable, or the system has no room for a process. */
export class NotStarted extends Error {}

/** Bytes of standard output that are kept: as much as a result may have. */
export const OUTPUT_BYTES = 256 * 1024;
/** Bytes at the end of standard error that are kept. */
export const ERROR_BYTES = 4 * 1024;

/** How long a process outside of the group may keep the output open after the program has ended. */
export const LINGER_MS = 500;

export class Program implements Running {
  readonly ended: Promise<Ended>;
  readonly #child: ChildProcess;
  readonly #killAfter: number;
  #isEnding = false;
  #killTimer: NodeJS.Timeout | undefined;

  constructor({ command, env, input, killAfter, onStart, onError }: Launch) {
    this.#killAfter = killAfter;
    const [file, ...args] = command as [string, ...string[]];
    this.#child = spawn(file, args, { stdio: "pipe", detached: true, env });
    this.ended = this.#run(onError);
    if (this.#child.pid === undefined) return;
    onStart(this.#child.pid);
    // A program need not read its input.
    this.#child.stdin!.on("error", () => {});
    this.#child.stdin!.end(input);
  }

  end(): void {
    if (this.#isEnding || this.#child.pid === undefined) return;
    this.#isEnding = true;
    this.#signal("SIGTERM");
    this.#killTimer = setTimeout(() => this.kill(), this.#killAfter);
  }

  kill(): void {
    this.#isEnding = true;
    this.#signal("SIGKILL");
  }

  async #run(onError: Launch["onError"]): Promise<Ended> {
    const output = new Head(OUTPUT_BYTES);
    const errors = new Tail(ERROR_BYTES);
    const child = this.#child;
    child.stdout?.on("data", (chunk: Buffer) => output.add(chunk));
    child.stderr?.on("data", (chunk: Buffer) => {
      errors.add(chunk);
      onError?.(chunk);
    });
    const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
    const { code, signal } = await new Promise<Pick<Ended, "code" | "signal">>((resolve, reject) => {
      child.once("error", (error) => {
        if (child.pid === undefined) reject(new NotStarted(error.message, { cause: error }));
      });
      child.once("exit", (code, signal) => resolve({ code, signal }));
    });
    // Processes that it started in the background end with it.
    if (this.#isGroupAlive()) this.end();
    await this.#closedSoon(closed);
    clearTimeout(this.#killTimer);
    if (this.#isGroupAlive()) this.kill();
    return { code, signal, output: output.captured, errors: errors.captured };
  }

  /** The output ends when the last process that has it open is gone. One that left the group is not waited for. */
  async #closedSoon(closed: Promise<void>): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      const linger = this.#isEnding ? this.#killAfter + LINGER_MS : LINGER_MS;
      // On a busy machine the timer may be over before the output was read: setImmediate() is after that.
      timer = setTimeout(() => setImmediate(resolve), linger);
    });
    await Promise.race([closed, late]);
    clearTimeout(timer);
    this.#child.stdout!.destroy();
    this.#child.stderr!.destroy();
  }

  #isGroupAlive(): boolean {
    return this.#signal(0);
  }

  #signal(signal: NodeJS.Signals | 0): boolean {
    try {
      return process.kill(-this.#child.pid!, signal);
    } catch {
      // No process of the group is left.
      return false;
    }
  }
}
