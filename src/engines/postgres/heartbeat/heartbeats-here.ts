import { startTimer } from "../../../core/time/clock.ts";
import { HeartbeatTimer } from "../../../engine/heartbeat-timer.ts";
import { systemClock } from "../../../engine/system-clock.ts";
import { HeartbeatAges } from "./heartbeat-ages.ts";
import type { HeartbeatReport, Heartbeats, SendHere } from "./heartbeats.ts";

/**
 * Heartbeats from the program's own thread, for a user's pool whose options cannot be passed to another one. A handler
 * that blocks the event loop for a whole lease loses its claims.
 */
export class HeartbeatsHere implements Heartbeats {
  readonly #timer: HeartbeatTimer;
  readonly #ages: HeartbeatAges;

  constructor(onReport: (report: HeartbeatReport) => void, sendHere: SendHere) {
    this.#ages = new HeartbeatAges((sessions) => {
      for (const session of sessions) this.#timer.leave(session);
      onReport({ lost: sessions });
    });
    this.#timer = new HeartbeatTimer(startTimer, async (sessions) => {
      const sentAt = systemClock.read().awake;
      const isCommitted = await sendHere(sessions);
      if (isCommitted) this.#ages.noteSent(sessions, sentAt);
      return isCommitted;
    });
  }

  join(session: number, lease: number, sentAt: number): void {
    this.#timer.join(session, lease);
    this.#ages.expect(session, lease, sentAt);
  }

  leave(session: number): void {
    this.#timer.leave(session);
    this.#ages.forget(session);
  }

  async stop(): Promise<void> {
    this.#timer.stop();
    this.#ages.stop();
  }
}
