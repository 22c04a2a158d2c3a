import { showMs } from "../core/answer/figures.ts";

/** Workers that end by themselves, too early or with an error: each one delays the next start, up to a minute. */
export class Crashes {
  #count = 0;
  #nextStartAt = 0;

  /** Returns what to tell people. */
  add(now: number, lived: number, how: string, tail: string): string {
    this.#count++;
    const delay = Math.min(FIRST_DELAY_MS * 2 ** (this.#count - 1), LONGEST_DELAY_MS);
    this.#nextStartAt = now + delay;
    const last = tail.trim().split("\n").at(-1)?.slice(0, 300) ?? "";
    const said = last === "" ? "" : ` Its last line: ${last}`;
    return `A worker ended ${how} after ${showMs(lived)}, ${this.#count} in a row: the next one starts in ${showMs(delay)}.${said}`;
  }

  /** A worker works. */
  reset(): void {
    this.#count = 0;
    this.#nextStartAt = 0;
  }

  mayStart(now: number): boolean {
    return now >= this.#nextStartAt;
  }
}

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 60_000;
