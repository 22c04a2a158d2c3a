import { systemClock } from "../../../engine/system-clock.ts";

/**
 * Watches the age of each session's last committed heartbeat, for the heartbeat thread. A worker that is cut off gets no
 * notice that its claims are lost. When its lease has passed it must assume so, or two workers would have the same task.
 * Times are awake time of the machine, which all threads share.
 */
export class HeartbeatAges {
  readonly #onSilence: (sessions: number[]) => void;
  readonly #sessions = new Map<number, { lease: number; sentAt: number }>();
  #timer: NodeJS.Timeout | undefined;

  constructor(onSilence: (sessions: number[]) => void) {
    this.#onSilence = onSilence;
  }

  /** A session has joined. */
  expect(session: number, lease: number, sentAt: number): void {
    this.#sessions.set(session, { lease, sentAt });
    this.#check();
  }

  forget(session: number): void {
    this.#sessions.delete(session);
  }

  /** A heartbeat was committed. The store's lease starts no earlier than it was sent. */
  noteSent(sessions: number[], sentAt: number): void {
    for (const session of sessions) {
      const known = this.#sessions.get(session);
      if (known) known.sentAt = Math.max(known.sentAt, sentAt);
    }
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#sessions.clear();
  }

  #check(): void {
    clearTimeout(this.#timer);
    const now = systemClock.read().awake;
    const silent: number[] = [];
    let next = Number.POSITIVE_INFINITY;
    for (const [session, { lease, sentAt }] of this.#sessions) {
      const left = sentAt + lease - now;
      if (left <= 0) silent.push(session);
      else next = Math.min(next, left);
    }
    for (const session of silent) this.#sessions.delete(session);
    if (silent.length > 0) this.#onSilence(silent);
    if (next < Number.POSITIVE_INFINITY) this.#timer = setTimeout(() => this.#check(), Math.ceil(next));
  }
}
