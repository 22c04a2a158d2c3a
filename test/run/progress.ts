import type { Reporter, TestModule, TestSpecification, Vitest } from "vitest/node";
import { nameOf, record, type Seconds, secondsOf } from "./seconds.ts";

const EVERY_MS = 15_000;

/** Says every few seconds how many files are done, how long the rest will take, and which files are running. */
export class Progress implements Reporter {
  #vitest: Vitest | undefined;
  #timer: NodeJS.Timeout | undefined;
  #startedAt = 0;
  /** Recorded seconds of the files that have not ended, by module. */
  readonly #left = new Map<string, number>();
  readonly #running = new Map<string, number>();
  readonly #took: Seconds = {};
  #files = 0;
  #recorded = 0;

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
  }

  onTestRunStart(files: readonly TestSpecification[]): void {
    this.#startedAt = performance.now();
    this.#files = files.length;
    for (const { moduleId } of files) this.#left.set(moduleId, secondsOf(moduleId));
    this.#recorded = this.#secondsLeft();
    this.#timer = setInterval(() => this.#say(), EVERY_MS);
  }

  onTestModuleQueued({ moduleId }: TestModule): void {
    this.#running.set(moduleId, performance.now());
  }

  onTestModuleEnd({ moduleId }: TestModule): void {
    const startedAt = this.#running.get(moduleId) ?? this.#startedAt;
    this.#took[nameOf(moduleId)] = (performance.now() - startedAt) / 1_000;
    this.#running.delete(moduleId);
    this.#left.delete(moduleId);
  }

  onTestRunEnd(): void {
    clearInterval(this.#timer);
    if (process.env["DIBS_RECORD_SECONDS"]) record(this.#took);
  }

  #say(): void {
    // Nothing runs while a process for the next file starts.
    const running = [...this.#running.keys()].map(nameOf).join(", ") || "none yet";
    const done = this.#files - this.#left.size;
    this.#vitest?.logger.log(
      `${done} of ${this.#files} files done, ${this.#estimate()}; running: ${running}`,
    );
  }

  /** Scales the recorded seconds by how fast this run has been so far, which covers the workers and the machine. */
  #estimate(): string {
    const elapsed = (performance.now() - this.#startedAt) / 1_000;
    const left = this.#secondsLeft();
    const behind = this.#recorded - left;
    if (behind < 20) return `${Math.round(elapsed)} s so far`;
    const seconds = (left * elapsed) / behind;
    return seconds < 90 ? `about ${Math.ceil(seconds)} s left` : `about ${Math.round(seconds / 60)} min left`;
  }

  /** A running file counts with what is left of its recorded time. */
  #secondsLeft(): number {
    let sum = 0;
    for (const [moduleId, seconds] of this.#left) {
      const startedAt = this.#running.get(moduleId);
      const ran = startedAt === undefined ? 0 : (performance.now() - startedAt) / 1_000;
      sum += Math.max(0, seconds - ran);
    }
    return sum;
  }
}
