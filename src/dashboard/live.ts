import { startTimer } from "../core/time/clock.ts";
import type { Port } from "../core/port.ts";
import { EventTap } from "./event-tap.ts";
import type { History } from "./history.ts";
import type { Jobs } from "./jobs.ts";
import type { HelloFrame } from "./live-frames.ts";
import { Overview } from "./overview.ts";
import { Picture } from "./picture.ts";
import type { Viewer } from "./viewer.ts";

/** At most ten writes a second. */
const TICK_MS = 100;
const BEAT_MS = 5_000;
/** A picture that the last page has left is kept for a while: the next page may show it again at once. */
const LINGER_MS = 2_000;

export interface LiveView {
  /** The rows of all queues. */
  queues: boolean;
  /** The picture of this queue. */
  queue?: string | undefined;
}

interface Shown {
  picture: Picture;
  pages: number;
  cancelEnd: () => void;
}

/**
 * The live feed: what live-frames.ts describes. All pages of a server share one evaluation of the overview and one of
 * each picture. A page costs the server what it costs to write to its connection.
 */
export class Live {
  readonly #port: Port;
  readonly #jobs: Jobs;
  readonly #history: History;
  readonly #hello: Omit<HelloFrame, "now" | "type">;
  readonly #tap: EventTap;
  readonly #pictures = new Map<string, Shown>();
  readonly #waiting = new Set<() => void>();
  readonly overview: Overview;
  readonly #closing = new AbortController();
  #pages = 0;
  #stopTicking: () => void = () => {};

  constructor(port: Port, parts: { jobs: Jobs; history: History; hello: Omit<HelloFrame, "now" | "type"> }) {
    this.#port = port;
    this.#jobs = parts.jobs;
    this.#history = parts.history;
    this.#hello = parts.hello;
    this.#tap = new EventTap(port);
    this.overview = new Overview(port, parts.history.sparks);
  }

  /**
   * The writes for one page, each one or more lines. The next one is made when the page has taken the last one: a page
   * that reads slowly gets the state of then, and a gap if it missed moves.
   */
  async *open(view: LiveView, viewer: Viewer, gone: AbortSignal): AsyncGenerator<string, void, void> {
    const signal = AbortSignal.any([gone, this.#closing.signal]);
    if (signal.aborted) return;
    const leave = this.#enter();
    let shown: Shown | undefined;
    try {
      if (view.queue !== undefined) shown = await this.#show(view.queue);
      await Promise.all([this.overview.ready, shown?.picture.ready]);
      const jobs = this.#jobs.textFor(viewer);
      const cursor = { round: 0, jobs: this.#jobs.revision, written: 0, at: performance.now() };
      const first = [
        JSON.stringify({ type: "hello", ...this.#hello, now: this.#now }),
        this.overview.totalsFor(viewer, this.#now),
        jobs,
      ];
      if (view.queues) first.push(this.overview.changesFor(viewer, 0)!);
      cursor.round = this.overview.round;
      if (shown) {
        const { lines, written } = shown.picture.snapshot;
        first.push(...lines);
        cursor.written = written;
      }
      yield textOf(first);
      while (!signal.aborted) {
        await this.#nextTick(signal);
        if (signal.aborted || !viewer.isWelcome()) return;
        const lines = this.#linesFor(view, viewer, shown?.picture, cursor);
        const isSilent = lines.length === 0 && performance.now() - cursor.at >= BEAT_MS;
        if (isSilent) lines.push(JSON.stringify({ type: "beat", now: this.#now }));
        if (lines.length === 0) continue;
        cursor.at = performance.now();
        yield textOf(lines);
      }
    } finally {
      if (shown) this.#hide(shown);
      leave();
    }
  }

  /** Everything that a page has not got yet. */
  #linesFor(
    view: LiveView,
    viewer: Viewer,
    picture: Picture | undefined,
    cursor: { round: number; jobs: number; written: number },
  ): string[] {
    const lines: string[] = [];
    if (picture) {
      const next = picture.after(cursor.written);
      lines.push(...next.lines);
      cursor.written = next.written;
    }
    if (this.overview.round > cursor.round) {
      lines.push(this.overview.totalsFor(viewer, this.#now));
      const changes = view.queues ? this.overview.changesFor(viewer, cursor.round) : undefined;
      if (changes !== undefined) lines.push(changes);
      cursor.round = this.overview.round;
    }
    if (this.#jobs.revision > cursor.jobs) {
      lines.push(this.#jobs.textFor(viewer));
      cursor.jobs = this.#jobs.revision;
    }
    return lines;
  }

  get #now(): number {
    return Math.floor(this.#port.clock.read().wall);
  }

  #enter(): () => void {
    const leaveOverview = this.overview.watch();
    if (++this.#pages === 1) this.#tick();
    return () => {
      leaveOverview();
      if (--this.#pages === 0) this.#stopTicking();
    };
  }

  async #show(queue: string): Promise<Shown> {
    let shown = this.#pictures.get(queue);
    if (!shown) {
      const observed = await this.#history.kneePoints(queue);
      shown = this.#pictures.get(queue) ?? {
        picture: new Picture(this.#port, this.#tap, queue, observed),
        pages: 0,
        cancelEnd: () => {},
      };
      this.#pictures.set(queue, shown);
    }
    shown.pages++;
    shown.cancelEnd();
    return shown;
  }

  #hide(shown: Shown): void {
    if (--shown.pages > 0) return;
    shown.cancelEnd = startTimer(LINGER_MS, () => {
      this.#pictures.delete(shown.picture.queue);
      shown.picture.close();
    });
  }

  #tick(): void {
    this.#stopTicking = startTimer(TICK_MS, () => {
      for (const { picture } of this.#pictures.values()) picture.tick();
      for (const wake of [...this.#waiting]) wake();
      this.#tick();
    });
  }

  async #nextTick(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const end = (): void => {
        this.#waiting.delete(end);
        signal.removeEventListener("abort", end);
        resolve();
      };
      this.#waiting.add(end);
      signal.addEventListener("abort", end, { once: true });
    });
  }

  /** Ends all streams, and what it reads of the store. */
  close(): void {
    this.#closing.abort();
    this.#stopTicking();
    for (const shown of this.#pictures.values()) {
      shown.cancelEnd();
      shown.picture.close();
    }
    this.#pictures.clear();
  }
}

function textOf(lines: readonly string[]): string {
  return `${lines.join("\n")}\n`;
}
