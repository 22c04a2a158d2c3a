import { typeOf } from "../core/event/event-text.ts";
import type { DibsEvent } from "../core/event/events.ts";
import type { Port } from "../core/port.ts";

export interface TapListener {
  /** The queue whose events it gets, besides those about workers. */
  queue: string;
  event(event: DibsEvent): void;
  /** So many events of any queue were missed. */
  gap(missed: number): void;
}

/**
 * The events of the store for all pictures of a server: read once, while there is a picture. An event is parsed only if
 * it is about a queue that is shown.
 */
export class EventTap {
  readonly #port: Port;
  readonly #listeners = new Set<TapListener>();
  #reading: AbortController | undefined;

  constructor(port: Port) {
    this.#port = port;
  }

  listen(listener: TapListener): () => void {
    this.#listeners.add(listener);
    if (!this.#reading) void this.#read((this.#reading = new AbortController()));
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.#reading?.abort();
      this.#reading = undefined;
    };
  }

  /** After a failure of the store, starts again with a gap: what happened meanwhile is not known. */
  async #read(reading: AbortController): Promise<void> {
    while (!reading.signal.aborted) {
      try {
        for await (const { texts } of this.#port.events(reading.signal))
          for (const text of texts) this.#pass(text);
      } catch {
        // The overview says what is wrong with the store.
      }
      if (reading.signal.aborted) return;
      for (const listener of this.#listeners) listener.gap(1);
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref());
    }
  }

  #pass(text: string): void {
    const type = typeOf(text);
    if (type === "gap") {
      const { missed } = JSON.parse(text) as { missed: number };
      for (const listener of this.#listeners) listener.gap(missed);
    } else if (type.startsWith("worker.")) {
      const event = JSON.parse(text) as DibsEvent;
      for (const listener of this.#listeners) listener.event(event);
    } else {
      for (const listener of this.#listeners)
        if (text.includes(`"queue":"${listener.queue}"`)) listener.event(JSON.parse(text) as DibsEvent);
    }
  }
}

const RETRY_MS = 1_000;
