import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { PYTHON } from "./debian.ts";

const SET_UP = join(import.meta.dirname, "programs", "set-up");

/** A program whose lines of output a test waits for. It is killed at the end of the test. */
export class Running {
  readonly lines: string[] = [];
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  #rest = "";
  #errors = "";
  #wake: () => void = () => {};

  constructor(command: string, args: string[], env: NodeJS.ProcessEnv = {}) {
    this.#child = spawn(command, args, {
      stdio: ["ignore", "pipe", "pipe"],
      // Its own group: some programs start others.
      detached: true,
      env: { ...process.env, ...env },
    });
    this.#ended = once(this.#child, "close");
    this.#child.stdout!.setEncoding("utf8").on("data", (text: string) => this.#take(text));
    this.#child.stderr!.setEncoding("utf8").on("data", (text: string) => {
      this.#errors += text;
      this.#take(text);
    });
    void this.#ended.then(() => this.#wake());
    onTestFinished(() => this.killAll());
  }

  /** A Python program; pika's default port is the server's, so that programs run as they are written. */
  static python(file: string, args: string[], port: number, env: NodeJS.ProcessEnv = {}): Running {
    return new Running(PYTHON, ["-u", file, ...args], {
      ...{ AMQP_PORT: `${port}`, PYTHONPATH: SET_UP, PYTHONDONTWRITEBYTECODE: "1" },
      ...env,
    });
  }

  /** Resolves when a line that matches was printed, `count` times. */
  async says(what: RegExp, count = 1): Promise<string[]> {
    for (;;) {
      const found = this.lines.filter((line) => what.test(line));
      if (found.length >= count) return found;
      if (this.#child.exitCode !== null || this.#child.signalCode !== null)
        throw new Error(`It ended before it said ${what}:\n${this.lines.join("\n")}`);
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** Its output, when it has ended well. */
  async finished(): Promise<string[]> {
    await this.#ended;
    if (this.#child.exitCode !== 0) throw new Error(`It failed:\n${this.#errors}\n${this.lines.join("\n")}`);
    return this.lines;
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    this.#child.kill(signal);
    await this.#ended;
  }

  /** With the processes that it started, at once: as a machine that loses its power. */
  async killAll(): Promise<void> {
    try {
      process.kill(-this.#child.pid!, "SIGKILL");
    } catch {
      // All of them have ended.
    }
    await this.#ended;
  }

  #take(text: string): void {
    const parts = (this.#rest + text).split("\n");
    this.#rest = parts.pop()!;
    this.lines.push(...parts);
    this.#wake();
  }
}
