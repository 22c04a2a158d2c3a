import type { Clock } from "../core/time/clock.ts";

/** A heartbeat that failed (disk full, store locked) is retried after this. */
const RETRY_MS = 250;

/** Sessions with the same lease send heartbeats together: one commit for all, however many workers a process has. */
interface Rhythm {
  every: number;
  sessions: Set<number>;
  stopTimer: () => void;
}

/**
 * Sends heartbeats for the sessions that joined through this process, at least three per lease, until they leave or are
 * gone. Used by the SQLite thread and by PostgreSQL's heartbeat thread.
 */
export class HeartbeatTimer {
  readonly #after: Clock["after"];
  readonly #beat: (sessions: number[]) => Promise<boolean> | boolean;
  readonly #rhythms = new Map<number, Rhythm>();

  /** `beat` sends a heartbeat, and returns whether it was committed. */
  constructor(after: Clock["after"], beat: (sessions: number[]) => Promise<boolean> | boolean) {
    this.#after = after;
    this.#beat = beat;
  }

  join(session: number, lease: number): void {
    const every = lease / 3;
    let rhythm = this.#rhythms.get(every);
    if (!rhythm) {
      rhythm = { every, sessions: new Set(), stopTimer: () => {} };
      this.#rhythms.set(every, rhythm);
      this.#sleep(rhythm, every);
    }
    rhythm.sessions.add(session);
  }

  leave(session: number): void {
    for (const rhythm of this.#rhythms.values()) {
      rhythm.sessions.delete(session);
      if (rhythm.sessions.size === 0) this.#end(rhythm);
    }
  }

  stop(): void {
    for (const rhythm of this.#rhythms.values()) this.#end(rhythm);
  }

  #end(rhythm: Rhythm): void {
    rhythm.stopTimer();
    this.#rhythms.delete(rhythm.every);
  }

  #sleep(rhythm: Rhythm, ms: number): void {
    rhythm.stopTimer = this.#after(ms, () => void this.#once(rhythm));
  }

  async #once(rhythm: Rhythm): Promise<void> {
    // Set the next timer before sending, so that a late answer does not slow the rhythm.
    this.#sleep(rhythm, rhythm.every);
    const through = await this.#beat([...rhythm.sessions]);
    if (through || this.#rhythms.get(rhythm.every) !== rhythm) return;
    rhythm.stopTimer();
    this.#sleep(rhythm, Math.min(RETRY_MS, rhythm.every));
  }
}
