import type { DibsEvent } from "../../core/events.ts";
import type { Port } from "../../core/port.ts";

/** Events that are kept here for a listener that has not asked for them. The rest stays with the store, which tells gaps. */
const KEPT = 1_000;
/** On one connection. */
const MOST = 100;

interface Listener {
  stop: AbortController;
  events: DibsEvent[];
  isAsked: boolean;
  isOver: boolean;
  /** Goes on reading. */
  wake: (() => void) | undefined;
}

/** Follows the events for a client, which asks for them page by page. */
export class Listeners {
  readonly #port: Port;
  readonly #send: (id: number, events: DibsEvent[] | null) => void;
  readonly #listeners = new Map<number, Listener>();

  constructor(port: Port, send: (id: number, events: DibsEvent[] | null) => void) {
    this.#port = port;
    this.#send = send;
  }

  get areMany(): boolean {
    return this.#listeners.size >= MOST;
  }

  open(id: number, onError: (error: unknown) => void): void {
    const listener: Listener = {
      stop: new AbortController(),
      events: [],
      isAsked: false,
      isOver: false,
      wake: undefined,
    };
    this.#listeners.set(id, listener);
    // Begun at once: what the client calls next is seen.
    const events = this.#port.events(listener.stop.signal);
    this.#follow(id, listener, events).catch(onError);
  }

  next(id: number): void {
    const listener = this.#listeners.get(id);
    if (!listener) return;
    listener.isAsked = true;
    this.#pass(id, listener);
  }

  close(id: number): void {
    const listener = this.#listeners.get(id);
    this.#listeners.delete(id);
    listener?.stop.abort();
    listener?.wake?.();
  }

  closeAll(): void {
    for (const id of [...this.#listeners.keys()]) this.close(id);
  }

  async #follow(id: number, listener: Listener, events: AsyncIterable<DibsEvent>): Promise<void> {
    for await (const event of events) {
      listener.events.push(event);
      this.#pass(id, listener);
      while (listener.events.length >= KEPT && !listener.stop.signal.aborted)
        await new Promise<void>((resolve) => (listener.wake = resolve));
      if (listener.stop.signal.aborted) break;
    }
    listener.isOver = true;
    this.#pass(id, listener);
  }

  #pass(id: number, listener: Listener): void {
    if (!listener.isAsked || (listener.events.length === 0 && !listener.isOver)) return;
    if (this.#listeners.get(id) !== listener) return;
    listener.isAsked = false;
    if (listener.events.length > 0) this.#send(id, listener.events.splice(0));
    else this.#send(id, null);
    listener.wake?.();
  }
}
