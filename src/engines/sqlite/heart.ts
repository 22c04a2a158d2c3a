import type { Clock } from "../../core/clock.ts";

/** A beat that failed (disk full, store locked) is tried again after this. */
const RETRY_MS = 250;

/** Beats the sessions that joined through here, each three times a lease, until they leave or are gone. */
export class Heart {
  readonly #after: Clock["after"];
  readonly #beat: (session: number) => Promise<boolean> | boolean;
  readonly #timers = new Map<number, () => void>();

  /** `beat` answers whether it came through. */
  constructor(after: Clock["after"], beat: (session: number) => Promise<boolean> | boolean) {
    this.#after = after;
    this.#beat = beat;
  }

  join(session: number, lease: number): void {
    this.#sleep(session, lease / 3, lease / 3);
  }

  leave(session: number): void {
    this.#timers.get(session)?.();
    this.#timers.delete(session);
  }

  stop(): void {
    for (const session of [...this.#timers.keys()]) this.leave(session);
  }

  #sleep(session: number, ms: number, every: number): void {
    this.#timers.set(
      session,
      this.#after(ms, () => void this.#once(session, every)),
    );
  }

  async #once(session: number, every: number): Promise<void> {
    // The next one is set before this one is sent, so that an answer that comes late does not slow the rhythm.
    this.#sleep(session, every, every);
    const through = await this.#beat(session);
    if (through || !this.#timers.has(session)) return;
    this.leave(session);
    this.#sleep(session, Math.min(RETRY_MS, every), every);
  }
}
