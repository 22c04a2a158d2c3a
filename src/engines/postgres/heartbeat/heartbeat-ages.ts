import { systemClock } from "../../../engine/system-clock.ts";

/**
 * Watches how long ago each session's last sign of life was sent that came through. A worker that is cut off is not told
 * that its claims are lost: when its lease has passed it has to assume so, or it would go on beside whoever has them now.
 * Times are of the machine's waking hours: every thread counts them alike.
 */
export class HeartbeatAges {
  readonly #onSilence: (sessions: number[]) => void;
  readonly #sessions = new Map<number, { lease: number; sentAt: number }>();
  #timer: NodeJS.Timeout | undefined;

  constructor(onSilence: (sessions: number[]) => void) {
    this.#onSilence = onSilence;
  }

  /** It has joined. */
  expect(session: number, lease: number, sentAt: number): void {
    this.#sessions.set(session, { lease, sentAt });
    this.#look();
  }

  forget(session: number): void {
    this.#sessions.delete(session);
  }

  /** Counted from when it was sent: the store heard of it no sooner. */
  given(sessions: number[], sentAt: number): void {
    for (const session of sessions) {
      const known = this.#sessions.get(session);
      if (known) known.sentAt = Math.max(known.sentAt, sentAt);
    }
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#sessions.clear();
  }

  #look(): void {
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
    if (next < Number.POSITIVE_INFINITY) this.#timer = setTimeout(() => this.#look(), Math.ceil(next));
  }
}
