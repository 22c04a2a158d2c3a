import { randomUUID } from "node:crypto";
import { startTimer } from "../core/clock.ts";
import { EventPage } from "../core/event-page.ts";
import { BOUNDS } from "../engine/engine.ts";
import type { Bell } from "./bell.ts";
import type { Context } from "./context.ts";
import { KeptEvents } from "./kept-events.ts";

/** Events of one question to the store, and about as many of one page. */
const PAGE = 1_000;
/** The store is asked for news at most this often, so that what many commits bring is one page. The first comes at once. */
const ASK_EVERY_MS = 20;
/** The store is asked at most this often while it only counts events: all it can tell is how many were missed. */
const ASK_COUNT_EVERY_MS = 100;
/** All readers of a process together get about so many events a second, and a page each so many milliseconds. */
const EVENTS_A_SECOND = 200_000;
const PAGE_EVERY_MS = 2;

/**
 * The events of a store for all readers of this process: read from the store once, and kept for a while. A reader that
 * is slower than that, or than its share of what readers may cost, gets a gap. One that does not ask costs nothing.
 */
export class Feed {
  readonly #context: Context;
  readonly #bell: Bell;
  #follower: Follower | undefined;

  constructor(context: Context, bell: Bell) {
    this.#context = context;
    this.#bell = bell;
  }

  /** Starts listening at once: what happens from the call on is seen, even before the first page is asked for. */
  open(signal: AbortSignal): AsyncIterableIterator<EventPage> {
    const follower = (this.#follower ??= new Follower(this.#context, this.#bell, () => {
      if (this.#follower === follower) this.#follower = undefined;
    }));
    return follower.open(signal);
  }
}

/**
 * Follows the store from the first reader to the last one. It asks the store only while a reader waits for a page; the store
 * keeps the events meanwhile, as long as the listener's lease is renewed.
 */
class Follower {
  readonly #context: Context;
  readonly #bell: Bell;
  readonly #onEnd: () => void;
  readonly #listener = randomUUID();
  readonly #readers = new Set<Reader>();
  readonly #stop = new AbortController();
  #kept: KeptEvents | undefined;
  #error: unknown;
  #isOver = false;
  /** Ends the rest while nobody waits for a page. */
  #onWanted: () => void = () => {};

  constructor(context: Context, bell: Bell, onEnd: () => void) {
    this.#context = context;
    this.#bell = bell;
    this.#onEnd = onEnd;
  }

  open(signal: AbortSignal): Reader {
    const { clock } = this.#context;
    const start = this.#context
      .run({ verb: "listen", listener: this.#listener, after: null, limit: 1 })
      // Those that others committed in this moment are on the page already; they are read again from here.
      .then(({ cursor, missed, events }) => cursor - missed - events.length);
    start.catch(() => {});
    const reader = new Reader(this, start, signal, () => Math.floor(clock.read().wall));
    const isFirst = this.#readers.size === 0;
    this.#readers.add(reader);
    if (isFirst) void this.#follow(start);
    return reader;
  }

  get kept(): KeptEvents | undefined {
    return this.#kept;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Why it ended, where that was not for want of readers. */
  get error(): unknown {
    return this.#error;
  }

  /** Readers that wait for their next page. */
  get asking(): number {
    let count = 0;
    for (const reader of this.#readers) if (reader.isAsking) count++;
    return count;
  }

  /** A reader has read all that is kept. */
  want(): void {
    this.#onWanted();
  }

  close(reader: Reader): void {
    this.#readers.delete(reader);
    if (this.#readers.size > 0 || this.#isOver) return;
    this.#end();
    void this.#context.run({ verb: "unlisten", listener: this.#listener }).catch(() => {});
  }

  async #follow(start: Promise<number>): Promise<void> {
    try {
      this.#kept = new KeptEvents(await start, BOUNDS.events);
      while (!this.#isOver) {
        await this.#ask(this.#kept);
        if (this.asking === 0) await this.#rest();
      }
    } catch (error) {
      this.#error = error;
      this.#end();
    }
  }

  async #ask(kept: KeptEvents): Promise<void> {
    const { context, signal } = { context: this.#context, signal: this.#stop.signal };
    // Read before the question: what is committed while its answer is being used rings once more.
    const heard = this.#bell.rung;
    const asked = performance.now();
    const before = kept.last;
    const { events, cursor, missed } = await context.run({
      ...{ verb: "listen", listener: this.#listener, after: before, limit: PAGE },
    });
    kept.append(events, cursor);
    // It was forgotten, and nobody counted what happened meanwhile.
    const uncounted = missed - (cursor - before - events.length);
    for (const reader of this.#readers) reader.hear(uncounted);
    if (events.length >= PAGE) return;
    // A page ends where events are missing too: only an empty one says that there are no more.
    if (events.length === 0) await this.#bell.wait(context, heard, context.pollEvery, signal);
    const every = events.length > 0 ? ASK_EVERY_MS : ASK_COUNT_EVERY_MS;
    if (cursor > before) await pause(asked + every - performance.now(), signal);
  }

  /** Until a reader waits for a page, or the listener's lease is to be renewed. */
  async #rest(): Promise<void> {
    await new Promise<void>((resolve) => {
      const stopTimer = this.#context.clock.after(BOUNDS.listenerLease / 3, resolve);
      this.#onWanted = () => {
        stopTimer();
        resolve();
      };
    });
    this.#onWanted = () => {};
  }

  #end(): void {
    this.#isOver = true;
    this.#stop.abort();
    this.#onWanted();
    this.#onEnd();
    for (const reader of this.#readers) reader.hear(0);
  }
}

/** One reader's place among the events. */
class Reader implements AsyncIterableIterator<EventPage> {
  readonly #follower: Follower;
  readonly #start: Promise<number>;
  readonly #signal: AbortSignal;
  readonly #wall: () => number;
  #cursor: number | undefined;
  #uncounted = 0;
  #readyAt = 0;
  #isOver = false;
  #asking = 0;
  #wake: (() => void)[] = [];
  /** Ends the pause before the next page. */
  #onClose: () => void = () => {};
  readonly #abort = (): void => this.#close();

  constructor(follower: Follower, start: Promise<number>, signal: AbortSignal, wall: () => number) {
    this.#follower = follower;
    this.#start = start;
    this.#signal = signal;
    this.#wall = wall;
    signal.addEventListener("abort", this.#abort);
    if (signal.aborted) queueMicrotask(this.#abort);
  }

  get isAsking(): boolean {
    return this.#asking > 0;
  }

  /** There is news; `uncounted`: at least so many were missed, and have no numbers. */
  hear(uncounted: number): void {
    this.#uncounted += Math.max(0, uncounted);
    for (const wake of this.#wake.splice(0)) wake();
  }

  async next(): Promise<IteratorResult<EventPage, undefined>> {
    this.#asking++;
    try {
      this.#cursor ??= await this.#start;
      while (!this.#isOver) {
        const wait = this.#readyAt - performance.now();
        const page = wait < 1 ? this.#take() : undefined;
        if (page) return { done: false, value: page };
        if (this.#follower.isOver) throw this.#follower.error;
        await this.#sleep(wait < 1 ? undefined : wait);
      }
      return { done: true, value: undefined };
    } catch (error) {
      this.#close();
      throw error;
    } finally {
      this.#asking--;
    }
  }

  async return(): Promise<IteratorResult<EventPage, undefined>> {
    this.#close();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #take(): EventPage | undefined {
    const taken = this.#follower.kept?.after(this.#cursor!, PAGE);
    const missed = (taken?.missed ?? 0) + this.#uncounted;
    this.#uncounted = 0;
    if (taken) this.#cursor = taken.cursor;
    const page = missed > 0 ? this.#withGap(missed, taken?.page) : taken?.page;
    if (page) {
      const pace = Math.max(PAGE_EVERY_MS, (page.events.length * 1_000) / EVENTS_A_SECOND);
      this.#readyAt = performance.now() + pace * this.#follower.asking;
    }
    return page;
  }

  /** Readers in step have missed the same, and share this page too. */
  #withGap(missed: number, page: EventPage | undefined): EventPage {
    const gap = (at: number) => ({ type: "gap", at, missed }) as const;
    const first = page?.events[0];
    if (!page || !first) return new EventPage([gap(this.#wall())]);
    return page.derive(missed, () => new EventPage([gap(first.at), ...page.events]));
  }

  /** Until there is news, or for so long. */
  async #sleep(ms: number | undefined): Promise<void> {
    await new Promise<void>((resolve) => {
      if (ms === undefined) {
        this.#wake.push(resolve);
        this.#follower.want();
        return;
      }
      const stopTimer = startTimer(ms, resolve);
      this.#onClose = () => {
        stopTimer();
        resolve();
      };
    });
  }

  #close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#signal.removeEventListener("abort", this.#abort);
    this.#onClose();
    for (const wake of this.#wake.splice(0)) wake();
    this.#follower.close(this);
  }
}

/** By the machine's clock, also where a test moves another one: it only spreads work. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms < 1 || signal.aborted) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      stopTimer();
      signal.removeEventListener("abort", done);
      resolve();
    };
    const stopTimer = startTimer(ms, done);
    signal.addEventListener("abort", done);
  });
}
