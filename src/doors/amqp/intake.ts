import type { Socket } from "node:net";
import type { Heartbeat } from "./heartbeat.ts";

/**
 * Whether anything is read from one client. Reading stops while a channel has too many calls that wait, and while the
 * store takes no more messages: then the client is blocked, and told so.
 */
export class Intake {
  readonly #socket: Socket;
  readonly #heartbeat: Heartbeat;
  #isPaused = false;
  #isBlocked = false;

  constructor(socket: Socket, heartbeat: Heartbeat) {
    this.#socket = socket;
    this.#heartbeat = heartbeat;
  }

  pause(): void {
    this.#isPaused = true;
    this.#heartbeat.isPaused = true;
    this.#socket.pause();
  }

  resume(): void {
    if (!this.#isPaused || this.#isBlocked) return;
    this.#isPaused = false;
    this.#heartbeat.isPaused = false;
    this.#socket.resume();
  }

  /** Whether that is a change. */
  block(): boolean {
    if (this.#isBlocked) return false;
    this.#isBlocked = true;
    this.pause();
    return true;
  }

  /** Whether that is a change. */
  unblock(): boolean {
    if (!this.#isBlocked) return false;
    this.#isBlocked = false;
    this.resume();
    return true;
  }
}
