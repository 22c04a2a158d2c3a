import { randomUUID } from "node:crypto";
import { startTimer } from "../core/time/clock.ts";
import { EventPage } from "../core/event/event-page.ts";
import { gapText, spanOfAll, timeOf } from "../core/event/event-text.ts";
import { BOUNDS } from "../engine/bounds.ts";
import type { EventWakeup } from "./event-wakeup.ts";
import type { Context } from "./context.ts";
import { RecentEvents } from "./recent-events.ts";

/** Events per read of the store, and approximately per page. */
const PAGE = 1_000;
/**
 * The store is read at most this often, so that the events of many commits form one page: every page costs a read of the
 * store, and a write to each reader's socket. The first read is immediate.
 */
const ASK_EVERY_MS = 50;
/** The store is read at most this often while it only counts events: it can only return how many were missed. */
const ASK_COUNT_EVERY_MS = 100;
/**
 * All readers of a process together get about this many events per second, and a page at most every few milliseconds.
 */
const EVENTS_A_SECOND = 200_000;
const PAGE_EVERY_MS = 2;
/**
 * A reader that only missed events gets a gap at most this often, unless there are events to show it. Each such page is
 * a write to a socket: without this, 100 readers of a server got 500 a second in a flood of events.
 */
const GAP_EVERY_MS = 1_000;

/**
 * The events of a store for all readers of this process: read from the store once, and kept in memory for a while. A
 * reader that is slower than that, or exceeds its share of what readers may cost, gets a gap. A reader that does not
 * ask costs nothing.
 */
export class Feed {
  readonly #context: Context;
  readonly #wakeup: EventWakeup;
  #follower: Follower | undefined;

  constructor(context: Context, wakeup: EventWakeup) {
    this.#context = context;
    this.#wakeup = wakeup;
  }

  /** Starts listening at once: a reader gets everything from the call on, even before it asks for the first page. */
  open(signal: AbortSignal): AsyncIterableIterator<EventPage> {
    const follower = (this.#follower ??= new Follower(this.#context, this.#wakeup, () => {
      if (this.#follower === follower) this.#follower = undefined;
    }));
    return follower.open(signal);
  }
}

/**
 * Reads the store's events from the first reader to the last one. It reads only while a reader waits for a page.
 * Meanwhile the store keeps the events, as long as the listener's lease is renewed.
 */
class Follower {
  readonly #context: Context;
  readonly #wakeup: EventWakeup;
  readonly #onEnd: () => void;
  readonly #listener = randomUUID();
  readonly #readers = new Set<Reader>();
  readonly #stop = new AbortController();
  #recent: RecentEvents | undefined;
  #error: unknown;
  #isOver = false;
  /** Ends the wait in which no reader wants a page. */
  #onWanted: () => void = () => {};

  constructor(context: Context, wakeup: EventWakeup, onEnd: () => void) {
    this.#context = context;
    this.#wakeup = wakeup;
    this.#onEnd = onEnd;
  }

  open(signal: AbortSignal): Reader {
    const { clock } = this.#context;
    const start = this.#context
      .run({ verb: "listen", listener: this.#listener, after: null, limit: 1 })
      // The answer may already contain events of other processes. Start before them, so that the reader gets them too.
      .then(({ cursor, missed, events }) => cursor - missed - spanOfAll(events));
    start.catch(() => {});
    const reader = new Reader(this, start, signal, () => Math.floor(clock.read().wall));
    const isFirst = this.#readers.size === 0;
    this.#readers.add(reader);
    if (isFirst) void this.#follow(start);
    return reader;
  }

  get recent(): RecentEvents | undefined {
    return this.#recent;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** The error that ended it; undefined if all readers left. */
  get error(): unknown {
    return this.#error;
  }

  /** How many readers wait for their next page. */
  get asking(): number {
    let count = 0;
    for (const reader of this.#readers) if (reader.isAsking) count++;
    return count;
  }

  /** A reader has read everything in memory. */
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
      this.#recent = new RecentEvents(await start, BOUNDS.events);
      while (!this.#isOver) {
        await this.#ask(this.#recent);
        if (this.asking === 0) await this.#waitForReader();
      }
    } catch (error) {
      this.#error = error;
      this.#end();
    }
  }

  async #ask(recent: RecentEvents): Promise<void> {
    const { context, signal } = { context: this.#context, signal: this.#stop.signal };
    // Read the count before the call: a commit during the call wakes it again.
    const seen = this.#wakeup.count;
    const asked = performance.now();
    const before = recent.last;
    const { events, cursor, missed } = await context.run({
      ...{ verb: "listen", listener: this.#listener, after: before, limit: PAGE },
    });
    // `missed` is larger than the gap in the numbers if the registration had expired: nothing numbers events without a
    // listener.
    const uncounted = missed - recent.append(events, cursor);
    for (const reader of this.#readers) reader.notify(uncounted);
    if (events.length >= PAGE) return;
    // A page also ends where events are missing. Only an empty page says that there are no more.
    if (events.length === 0) await this.#wakeup.wait(context, seen, context.pollEvery, signal);
    const every = events.length > 0 ? ASK_EVERY_MS : ASK_COUNT_EVERY_MS;
    if (cursor > before) await pause(asked + every - performance.now(), signal);
  }

  /** Waits until a reader wants a page, or the listener's lease must be renewed. */
  async #waitForReader(): Promise<void> {
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
    for (const reader of this.#readers) reader.notify(0);
  }
}

/** The position of one reader in the events. */
class Reader implements AsyncIterableIterator<EventPage> {
  readonly #follower: Follower;
  readonly #start: Promise<number>;
  readonly #signal: AbortSignal;
  readonly #wall: () => number;
  #cursor: number | undefined;
  #uncounted = 0;
  #readyAt = 0;
  /** When it may get a page that has nothing but a gap. */
  #gapReadyAt = 0;
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

  /** There are new events. `uncounted`: at least this many were missed that have no numbers. */
  notify(uncounted: number): void {
    this.#uncounted += Math.max(0, uncounted);
    for (const wake of this.#wake.splice(0)) wake();
  }

  async next(): Promise<IteratorResult<EventPage, undefined>> {
    this.#asking++;
    try {
      this.#cursor ??= await this.#start;
      while (!this.#isOver) {
        const wait = this.#readyAt - performance.now();
        if (wait >= 1) {
          await this.#pause(wait);
          continue;
        }
        const page = this.#take();
        if (page) return { done: false, value: page };
        if (this.#follower.isOver) throw this.#follower.error;
        await this.#waitForEvents();
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
    const taken = this.#follower.recent?.after(this.#cursor!, PAGE);
    const now = performance.now();
    if (taken && !taken.page) {
      if (now < this.#gapReadyAt && !this.#follower.isOver) return undefined;
      this.#gapReadyAt = now + GAP_EVERY_MS;
    }
    const missed = (taken?.missed ?? 0) + this.#uncounted;
    this.#uncounted = 0;
    if (taken) this.#cursor = taken.cursor;
    const page = missed > 0 ? this.#withGap(missed, taken?.page) : taken?.page;
    if (page) {
      const pace = Math.max(PAGE_EVERY_MS, (page.length * 1_000) / EVENTS_A_SECOND);
      this.#readyAt = now + pace * this.#follower.asking;
    }
    return page;
  }

  /** Readers at the same position have missed the same events, and share this page too. */
  #withGap(missed: number, page: EventPage | undefined): EventPage {
    if (!page) return EventPage.ofTexts([gapText(this.#wall(), missed)]);
    return page.derive(missed, ({ texts }) =>
      EventPage.ofTexts([gapText(timeOf(texts[0]!), missed), ...texts]),
    );
  }

  /** Waits for new events. If the reader has missed some, waits at most until it may get the next gap. */
  async #waitForEvents(): Promise<void> {
    await new Promise<void>((resolve) => {
      const { recent } = this.#follower;
      const hasMissed = recent !== undefined && recent.last > this.#cursor!;
      const stopTimer = hasMissed ? startTimer(this.#gapReadyAt - performance.now(), resolve) : () => {};
      this.#wake.push(() => {
        stopTimer();
        resolve();
      });
      this.#follower.want();
    });
  }

  async #pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
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

/** Uses the machine's clock, even if a test moves another one: it only spreads work. */
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
