import type { Move } from "./live-frames.ts";

/** Rates of a picture are those of so many seconds. */
const SECONDS = 5;

interface Second {
  at: number;
  added: number;
  done: number;
  failed: number;
  doneBy: Map<string, number>;
}

/** Counts the moves of the last seconds, for rates that follow the traffic faster than those of the last minute. */
export class RecentFlow {
  #seconds: Second[] = [];
  /** Since when nothing was missed, in seconds. */
  #since: number;

  constructor(now: number) {
    this.#since = Math.ceil(now / 1_000);
  }

  add([kind, , worker]: Move, now: number): void {
    const at = Math.floor(now / 1_000);
    let second = this.#seconds.at(-1);
    if (second?.at !== at) {
      second = { at, added: 0, done: 0, failed: 0, doneBy: new Map() };
      this.#seconds.push(second);
      while (this.#seconds[0]!.at < at - SECONDS) this.#seconds.shift();
    }
    if (kind === "added" || kind === "redriven") second.added++;
    else if (kind === "failed" || kind === "lost" || kind === "dead") second.failed++;
    else if (kind === "done") {
      second.done++;
      if (worker !== null) second.doneBy.set(worker, (second.doneBy.get(worker) ?? 0) + 1);
    }
  }

  /** Events were missed: the seconds so far are not complete. */
  forget(now: number): void {
    this.#seconds = [];
    this.#since = Math.ceil(now / 1_000);
  }

  /** Over whole seconds; undefined while there is none since the last gap. */
  rates(now: number): { added: number; done: number; failed: number; spanMs: number } | undefined {
    const { seconds, span } = this.#whole(now);
    if (span <= 0) return undefined;
    const sum = (of: (second: Second) => number): number =>
      seconds.reduce((total, second) => total + of(second), 0) / span;
    return {
      added: sum((second) => second.added),
      done: sum((second) => second.done),
      failed: sum((second) => second.failed),
      spanMs: span * 1_000,
    };
  }

  /** What a worker ended per second. */
  rateOf(worker: string, now: number): number {
    const { seconds, span } = this.#whole(now);
    if (span <= 0) return 0;
    return seconds.reduce((total, { doneBy }) => total + (doneBy.get(worker) ?? 0), 0) / span;
  }

  #whole(now: number): { seconds: Second[]; span: number } {
    const end = Math.floor(now / 1_000);
    const begin = Math.max(end - SECONDS, this.#since);
    return { seconds: this.#seconds.filter(({ at }) => at >= begin && at < end), span: end - begin };
  }
}
