import type { Clock } from "../core/time/clock.ts";
import type { DibsError } from "../core/errors/errors.ts";
import { EventPage } from "../core/event/event-page.ts";
import type { DibsEvent } from "../core/event/events.ts";
import { encode } from "../protocol/codec.ts";

/** Sends an item if there is a connection. */
type Send = (item: string) => void;

/**
 * The readers of events of this client, each with its own number. Each requests page by page, so that a slow one gets a
 * gap.
 */
export class Listeners {
  readonly #clock: Clock;
  readonly #send: Send;
  readonly #listeners = new Map<number, Listener>();

  constructor(clock: Clock, send: Send) {
    this.#clock = clock;
    this.#send = send;
  }

  open(id: number, signal: AbortSignal): AsyncIterableIterator<EventPage> {
    const listener = new Listener(id, this.#send, () => this.#listeners.delete(id));
    this.#listeners.set(id, listener);
    listener.start();
    if (signal.aborted) listener.end();
    signal.addEventListener("abort", () => listener.end(), { once: true });
    return listener;
  }

  arrived(id: number, events: DibsEvent[] | null): void {
    const listener = this.#listeners.get(id);
    if (events === null) listener?.end();
    else listener?.arrived(events);
  }

  failed(id: number, error: DibsError): boolean {
    const listener = this.#listeners.get(id);
    listener?.fail(error);
    return listener !== undefined;
  }

  /** After a new session began: it is unknown what happened in between. */
  restart(): void {
    const at = Math.floor(this.#clock.read().wall);
    for (const listener of this.#listeners.values()) {
      listener.start();
      listener.arrived([{ type: "gap", at, missed: 1 }]);
    }
  }

  endAll(): void {
    for (const listener of this.#listeners.values()) listener.end();
  }
}

class Listener implements AsyncIterableIterator<EventPage> {
  readonly #id: number;
  readonly #send: Send;
  readonly #onEnd: () => void;
  #pages: EventPage[] = [];
  #waiting: (() => void)[] = [];
  #isAsking = false;
  #isOver = false;
  #error: DibsError | undefined;

  constructor(id: number, send: Send, onEnd: () => void) {
    this.#id = id;
    this.#send = send;
    this.#onEnd = onEnd;
  }

  start(): void {
    this.#isAsking = false;
    this.#send(encode(["listen", this.#id]));
    if (this.#waiting.length > 0) this.#ask();
  }

  async next(): Promise<IteratorResult<EventPage>> {
    while (this.#pages.length === 0 && !this.#isOver) {
      this.#ask();
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    if (this.#error) throw this.#error;
    const page = this.#isOver ? undefined : this.#pages.shift();
    return page ? { done: false, value: page } : { done: true, value: undefined };
  }

  async return(): Promise<IteratorResult<EventPage>> {
    this.end();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  arrived(events: DibsEvent[]): void {
    this.#isAsking = false;
    this.#pages.push(EventPage.of(events));
    this.#wake();
  }

  fail(error: DibsError): void {
    this.#error = error;
    this.end();
  }

  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#onEnd();
    this.#send(encode(["unlisten", this.#id]));
    this.#wake();
  }

  #ask(): void {
    if (this.#isAsking) return;
    this.#isAsking = true;
    this.#send(encode(["next", this.#id]));
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }
}
