import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { everyItem } from "../core/answer/every-item.ts";
import { isDibsError } from "../core/errors/errors.ts";
import type { Logger } from "../core/process/logger.ts";
import type { Port } from "../core/port.ts";
import { sleepUntil } from "../core/time/sleep.ts";
import type { SupervisedRecord } from "../core/supervision.ts";
import type { FlowHistory, History as HistoryAnswer } from "./contract.ts";
import { addSample, type Levels, packLevels, readLevels, unpackLevels } from "./history-levels.ts";
import { countSample, type Sample } from "./history-sample.ts";
import type { KneePoint } from "./live-frames.ts";
import { RecentHistory } from "./recent-history.ts";
import { depthOf, Sparks } from "./sparks.ts";
import type { Viewer } from "./viewer.ts";

const MINUTE_MS = 60_000;
/** A sample describes the last minute: it is taken just before the minute ends. */
const BEFORE_END_MS = 100;
/** Documents that are written per minute: with more queues than that, each is written less often. */
const WRITES = 300;
/** Documents that are written at the same moment, and so in the same commits. */
const TOGETHER = 25;
/** Samples of a queue that wait to be written. Beyond that, another process records the queue. */
const MOST_PENDING = 60;
/** After this time without a write, another process may record a queue. */
const LEASE_MS = 20 * MINUTE_MS;
const KNEE_MS = 3 * 3_600_000;

/**
 * Records the figures of all queues minute by minute, in the store, so that charts survive a restart. Each queue has one
 * document (history-levels.ts), which one process at a time writes: its name is held as that of a pool is. Memory holds
 * the samples that are not written yet, and the last quarter of an hour in finer steps (recent-history.ts).
 */
export class History {
  readonly sparks = new Sparks();
  readonly #port: Port;
  readonly #logger: Logger;
  readonly #holder = `${hostname()}/${process.pid}#${randomBytes(4).toString("hex")}`;
  readonly #stopping = new AbortController();
  readonly #pending = new Map<string, { minute: number; sample: Sample }[]>();
  readonly #looping: Promise<void>;
  readonly #recent: RecentHistory;
  #problem: string | null = null;

  constructor(port: Port, logger: Logger) {
    this.#port = port;
    this.#logger = logger;
    this.#recent = new RecentHistory(port);
    this.#looping = this.#loop();
  }

  /** Writes what is not written yet, and gives the names up. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all([this.#looping, this.#recent.stop()]);
    await this.#write([...this.#pending.keys()], 0).catch(() => {});
  }

  /** @param port the caller's, which finds only what the caller may read */
  async read(
    port: Port,
    queue: string,
    span: { from: number; to: number; points: number },
  ): Promise<HistoryAnswer> {
    const { from, to, points } = span;
    const levels = await this.#levels(port, queue);
    const answer = readLevels(levels, from, to, points, this.#now);
    const isFine = this.#recent.covers(span, this.#now);
    return { queue, ...(isFine ? this.#recent.refine(queue, answer, from, to) : answer) };
  }

  /** All queues together, over the last quarter of an hour. */
  flow(viewer: Viewer): FlowHistory {
    return this.#recent.flow(viewer);
  }

  /** What was observed lately: throughput with so many workers. */
  async kneePoints(queue: string): Promise<KneePoint[]> {
    const levels = await this.#levels(this.#port, queue).catch(() => undefined);
    if (!levels) return [];
    const now = this.#now;
    const { from, step, series } = readLevels(levels, now - KNEE_MS + MINUTE_MS, now, 180, now);
    return series.done.flatMap((donePerSecond, at) => {
      const workers = series.workers[at] ?? 0;
      return donePerSecond && workers > 0 ? [{ workers, donePerSecond, at: from + (at + 1) * step }] : [];
    });
  }

  async #levels(port: Port, queue: string): Promise<Levels> {
    const [found] = (await port.supervised("history", { name: queue })).items;
    const levels = levelsOf(found);
    for (const { minute, sample } of this.#pending.get(queue) ?? []) addSample(levels, minute, sample);
    return levels;
  }

  get #now(): number {
    return this.#port.clock.read().wall;
  }

  async #loop(): Promise<void> {
    const { signal } = this.#stopping;
    const { clock } = this.#port;
    await this.#attempt(() => this.#fillSparks());
    while (!signal.aborted) {
      // The minute whose end is waited for. A machine that is late takes its sample in the next one.
      const minute = Math.floor((this.#now + BEFORE_END_MS) / MINUTE_MS);
      await sleepUntil(clock, (minute + 1) * MINUTE_MS - BEFORE_END_MS - this.#now, signal);
      if (signal.aborted) return;
      await this.#attempt(() => this.#sample(minute));
      await this.#attempt(() => this.#write(this.#longestWaiting(), LEASE_MS));
    }
  }

  async #attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      this.#problem = null;
    } catch (error) {
      if (isDibsError(error) && error.code === "CLOSED") return this.#stopping.abort();
      const { message } = error as Error;
      if (message !== this.#problem) this.#logger.warn(`The history could not be recorded: ${message}`);
      this.#problem = message;
    }
  }

  async #sample(minute: number): Promise<void> {
    const queues = await everyItem((page) => this.#port.queues({ ...page, stats: true }));
    for (const { name, stats } of queues) {
      this.sparks.add(name, minute, depthOf(stats!));
      const pending = this.#pending.get(name) ?? [];
      pending.push({ minute, sample: countSample(stats!) });
      if (pending.length > MOST_PENDING) pending.shift();
      this.#pending.set(name, pending);
    }
    const names = new Set(queues.map(({ name }) => name));
    this.sparks.keep(names);
    for (const name of this.#pending.keys()) if (!names.has(name)) this.#pending.delete(name);
  }

  #longestWaiting(): string[] {
    return [...this.#pending]
      .sort(([, a], [, b]) => b.length - a.length)
      .slice(0, WRITES)
      .map(([queue]) => queue);
  }

  async #write(queues: readonly string[], lease: number): Promise<void> {
    for (let at = 0; at < queues.length; at += TOGETHER)
      await Promise.all(queues.slice(at, at + TOGETHER).map((queue) => this.#writeOne(queue, lease)));
  }

  async #writeOne(queue: string, lease: number): Promise<void> {
    const [before] = (await this.#port.supervised("history", { name: queue })).items;
    if (before && before.heldFor > 0 && before.holder !== this.#holder) {
      this.#pending.delete(queue);
      return;
    }
    const samples = this.#pending.get(queue) ?? [];
    const levels = levelsOf(before);
    for (const { minute, sample } of samples) addSample(levels, minute, sample);
    await this.#port.supervise({
      ...{ kind: "history", name: queue, holder: this.#holder, host: hostname(), pid: process.pid },
      ...{ queues: [queue], lease, report: JSON.stringify(packLevels(levels)) },
    });
    // Samples that were taken meanwhile stay.
    const left = this.#pending.get(queue)?.slice(samples.length) ?? [];
    if (left.length > 0) this.#pending.set(queue, left);
    else this.#pending.delete(queue);
  }

  async #fillSparks(): Promise<void> {
    let after: string | undefined;
    do {
      const page = await this.#port.supervised("history", { after, limit: 100 });
      for (const found of page.items) {
        const [minutes] = levelsOf(found).levels;
        const { depth } = minutes!.series;
        const recent = depth.slice(-30);
        for (const [at, value] of recent.entries())
          this.sparks.add(found.name, minutes!.last - recent.length + 1 + at, value);
      }
      after = page.next ?? undefined;
    } while (after !== undefined && !this.#stopping.signal.aborted);
  }
}

function levelsOf(found: SupervisedRecord | undefined): Levels {
  return unpackLevels(found && (JSON.parse(found.report) as Parameters<typeof unpackLevels>[0]));
}
