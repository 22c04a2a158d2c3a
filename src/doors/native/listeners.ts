import type { EventPage } from "../../core/event/event-page.ts";
import type { Port } from "../../core/port.ts";

/** Most listeners on one connection. */
const MOST = 100;

interface Listener {
  stop: AbortController;
  pages: AsyncIterator<EventPage>;
  /** The client waits for a page. */
  isAsked: boolean;
}

/**
 * Reads the events for a client, which requests them page by page. Pages that it has not requested are not stored here.
 * The port keeps the events for all readers, and reports gaps.
 */
export class Listeners {
  readonly #port: Port;
  readonly #send: (id: number, events: string) => void;
  readonly #listeners = new Map<number, Listener>();

  /** @param send takes a page as JSON; null in JSON when there are no more */
  constructor(port: Port, send: (id: number, events: string) => void) {
    this.#port = port;
    this.#send = send;
  }

  get areMany(): boolean {
    return this.#listeners.size >= MOST;
  }

  open(id: number): void {
    // End an earlier listener with the same id: no later call could end it.
    this.close(id);
    const stop = new AbortController();
    // Start the listener at once, so that it gets the events of the client's next calls.
    this.#listeners.set(id, { stop, pages: this.#port.events(stop.signal), isAsked: false });
  }

  async next(id: number): Promise<void> {
    const listener = this.#listeners.get(id);
    if (!listener || listener.isAsked) return;
    listener.isAsked = true;
    const { done, value } = await listener.pages.next();
    listener.isAsked = false;
    if (this.#listeners.get(id) === listener) this.#send(id, done ? "null" : value.text);
  }

  close(id: number): void {
    const listener = this.#listeners.get(id);
    this.#listeners.delete(id);
    listener?.stop.abort();
  }

  closeAll(): void {
    for (const id of [...this.#listeners.keys()]) this.close(id);
  }
}
