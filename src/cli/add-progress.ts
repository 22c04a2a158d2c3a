import { count, formatDuration, formatRate } from "./human.ts";
import { say } from "./output.ts";

const EVERY_MS = 200;

/** What `dibs add` shows while it adds many tasks: how many and how fast, if a person watches. */
export class AddProgress {
  /** A program reads the ids. A person at a terminal sees the progress instead. */
  readonly printsIds: boolean;
  total = 0;
  readonly #isShown = process.stderr.isTTY;
  readonly #startedAt = performance.now();
  #shownAt = 0;

  constructor(isForPrograms: boolean) {
    this.printsIds = isForPrograms || !process.stdout.isTTY;
  }

  added(tasks: number): void {
    this.total += tasks;
    const now = performance.now();
    if (!this.#isShown || now - this.#shownAt < EVERY_MS) return;
    this.#shownAt = now;
    process.stderr.write(`\r\u001b[K${this.#describe("added")} …`);
  }

  end(queue: string): void {
    if (!this.#isShown) return;
    if (this.#shownAt > 0) process.stderr.write("\r\u001b[K");
    const seconds = formatDuration(performance.now() - this.#startedAt);
    say(`${this.#describe(`added to ${queue}`)} in ${seconds}.`);
  }

  #describe(what: string): string {
    const seconds = (performance.now() - this.#startedAt) / 1_000;
    return `${count(this.total, "task")} ${what}, ${formatRate(this.total / seconds)}/s`;
  }
}
