import { randomUUID } from "node:crypto";
import type { DibsEvent } from "../core/events.ts";
import { READING_VERBS, type VerbName } from "../engine/engine.ts";
import type { Context } from "./context.ts";

const PAGE = 1_000;

/** Wakes whoever follows the events, when a commit may have brought some. */
export class Bell {
  readonly #sleepers = new Set<() => void>();
  #rung = 0;

  /** How often it has rung. */
  get rung(): number {
    return this.#rung;
  }

  ring(): void {
    this.#rung++;
    for (const wake of this.#sleepers) wake();
    this.#sleepers.clear();
  }

  /** Until it has rung more than `heard` times, `ms` have passed, or the signal aborts. */
  async wait(context: Context, heard: number, ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.#rung > heard) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        stopTimer();
        signal.removeEventListener("abort", done);
        this.#sleepers.delete(done);
        resolve();
      };
      const stopTimer = context.clock.after(ms, done);
      signal.addEventListener("abort", done);
      this.#sleepers.add(done);
    });
  }
}

/** A listener's own questions must not wake it. */
export function makesEvents(verb: VerbName): boolean {
  return !READING_VERBS.has(verb) && verb !== "listen" && verb !== "unlisten";
}

/** Starts listening at once: what happens from the call on is seen, even before the first event is asked for. */
export function events(context: Context, bell: Bell, signal: AbortSignal): AsyncIterableIterator<DibsEvent> {
  const listener = randomUUID();
  const started = context.run({ verb: "listen", listener, after: null, limit: PAGE });
  started.catch(() => {});
  return follow(context, bell, signal, listener, started);
}

async function* follow(
  context: Context,
  bell: Bell,
  signal: AbortSignal,
  listener: string,
  started: Promise<{ cursor: number }>,
): AsyncGenerator<DibsEvent, void, void> {
  try {
    let { cursor } = await started;
    while (!signal.aborted) {
      // Read before the question: what is committed while its answer is being used rings once more.
      const heard = bell.rung;
      const page = await context.run({ verb: "listen", listener, after: cursor, limit: PAGE });
      cursor = page.cursor;
      if (page.missed > 0)
        yield {
          type: "gap",
          at: page.events[0]?.at ?? Math.floor(context.clock.read().wall),
          missed: page.missed,
        };
      yield* page.events;
      if (page.events.length < PAGE) await bell.wait(context, heard, context.pollEvery, signal);
    }
  } finally {
    await context.run({ verb: "unlisten", listener }).catch(() => {});
  }
}
