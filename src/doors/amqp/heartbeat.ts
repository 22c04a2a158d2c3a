/**
 * The heartbeats of one connection: sends one if nothing else was sent for half an interval, and ends the connection
 * after two intervals without a byte from the client. Intervals are counted, not time: after a freeze of this process,
 * it was this side that did not listen.
 */
export class Heartbeat {
  /** This side reads nothing for now, so the client's silence means nothing. */
  isPaused = false;
  #timer: NodeJS.Timeout | undefined;
  #hasHeard = true;
  #hasSent = false;
  #silent = 0;

  start(ms: number, { send, end }: { send: () => void; end: () => void }): void {
    this.#timer = setInterval(() => {
      if (!this.#hasSent) send();
      this.#hasSent = false;
      this.#silent = this.#hasHeard || this.isPaused ? 0 : this.#silent + 1;
      this.#hasHeard = false;
      if (this.#silent >= SILENT_HALVES) end();
    }, ms / 2);
    this.#timer.unref();
  }

  heard(): void {
    this.#hasHeard = true;
  }

  sent(): void {
    this.#hasSent = true;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

const SILENT_HALVES = 4;
