import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";

/** A helper process. It reports when it is ready, and answers requests one at a time. */
export class Helper implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #unheard: unknown[] = [];
  #onNews: (() => void) | undefined;

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.on("message", (message) => {
      this.#unheard.push(message);
      this.#onNews?.();
    });
    // "disconnect" comes after the last message; "exit" may come before it.
    child.on("disconnect", () => this.#onNews?.());
  }

  static async start(file: URL, task: object): Promise<Helper> {
    const helper = new Helper(fork(file, [JSON.stringify(task)]));
    await helper.next();
    return helper;
  }

  get pid(): number {
    return this.#child.pid!;
  }

  /** Its next message. */
  async next<T>(): Promise<T> {
    while (this.#unheard.length === 0) {
      if (!this.#child.connected)
        throw new Error(`A process of the benchmark ended with ${await this.#end()}.`);
      await new Promise<void>((resolve) => (this.#onNews = resolve));
    }
    return this.#unheard.shift() as T;
  }

  onMessage(listener: (message: unknown) => void): void {
    this.#child.on("message", listener);
  }

  async ask<T>(question: string): Promise<T> {
    this.#child.send(question);
    return this.next<T>();
  }

  /** Ends it like a crash. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#end();
  }

  async #end(): Promise<number | string | null> {
    const child = this.#child;
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    return child.exitCode ?? child.signalCode;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}

/** In the helper's process: what it was started with. It ends with the one that started it. */
export function helperTask(): unknown {
  process.on("disconnect", () => process.exit());
  return JSON.parse(process.argv[2]!);
}

/** In the helper's process. */
export function say(message: unknown): void {
  process.send!(message);
}
