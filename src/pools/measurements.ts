import type { Decision } from "./decide.ts";

/** What a simulation measures: simulate.ts records it, the pictures and tables of `dibs simulate` show it. */
export interface Measurements {
  summary: Summary;
  /** Equal parts of the duration. */
  points: Point[];
  /** Changes of the size, the first thousand. */
  decisions: { at: number; from: number; to: number; reasons: string[] }[];
}

export interface Summary {
  added: number;
  done: number;
  dead: number;
  /** Not ended when the simulation did. */
  left: number;
  /** Time of all workers together, from their start to their end, in hours. */
  workerHours: number;
  /** The part of that time in which they executed tasks, per task at a time. */
  utilisation: number;
  /** Workers that were started, and how often the pool changed from growing to shrinking or back. */
  starts: number;
  turns: number;
  peakWorkers: number;
  meanDepth: number;
  peakDepth: number;
  /** From add to first start, in milliseconds. */
  wait: { mean: number; p50: number; p95: number; p99: number; max: number };
  /** The share of tasks that started within the target wait. */
  withinTarget: number;
}

export interface Point {
  /** The end of this part. */
  at: number;
  addedPerSecond: number;
  /** Means over the part. */
  depth: number;
  workers: number;
  /** The mean wait of tasks that started in it; null: none did. */
  wait: number | null;
}

const POINTS = 240;
const MOST_DECISIONS = 1_000;

export class Recorder {
  readonly #duration: number;
  readonly #targetWait: number;
  readonly #points: Point[] = [];
  readonly #decisions: Measurements["decisions"] = [];
  readonly #waits: number[] = [];
  #now = 0;
  #part = noPart();
  #depthMs = 0;
  #workerMs = 0;
  #busyMs = 0;
  #added = 0;
  #done = 0;
  #dead = 0;
  #starts = 0;
  #turns = 0;
  #direction = 0;
  #peakDepth = 0;
  #peakWorkers = 0;

  constructor(duration: number, targetWait: number) {
    this.#duration = duration;
    this.#targetWait = targetWait;
  }

  /** From the last moment to `now`, there were this many. */
  advance(now: number, depth: number, workers: number): void {
    const partMs = this.#duration / POINTS;
    while (this.#now < now) {
      const end = (this.#points.length + 1) * partMs;
      const until = Math.min(now, end);
      const ms = until - this.#now;
      this.#part.depthMs += depth * ms;
      this.#part.workerMs += workers * ms;
      this.#depthMs += depth * ms;
      this.#workerMs += workers * ms;
      this.#now = until;
      if (until === end || this.#points.length === POINTS) this.#closePart(end, partMs);
    }
    this.#peakDepth = Math.max(this.#peakDepth, depth);
    this.#peakWorkers = Math.max(this.#peakWorkers, workers);
  }

  #closePart(at: number, partMs: number): void {
    const { added, started, waitMs, depthMs, workerMs } = this.#part;
    this.#points.push({
      at,
      addedPerSecond: (added / partMs) * 1_000,
      depth: depthMs / partMs,
      workers: workerMs / partMs,
      wait: started === 0 ? null : waitMs / started,
    });
    this.#part = noPart();
  }

  added(): void {
    this.#added++;
    this.#part.added++;
  }

  started(waited: number, isFirst: boolean): void {
    if (!isFirst) return;
    this.#waits.push(waited);
    this.#part.started++;
    this.#part.waitMs += waited;
  }

  worked(ms: number): void {
    this.#busyMs += ms;
  }

  done(): void {
    this.#done++;
  }

  failed(isDead: boolean): void {
    if (isDead) this.#dead++;
  }

  resized(at: number, from: number, { size: to, reasons }: Decision): void {
    this.#starts += Math.max(0, to - from);
    const direction = Math.sign(to - from);
    if (this.#direction !== 0 && direction !== this.#direction) this.#turns++;
    this.#direction = direction;
    if (this.#decisions.length < MOST_DECISIONS) this.#decisions.push({ at, from, to, reasons });
  }

  measurements({ left }: { left: number }): Measurements {
    const waits = this.#waits.sort((a, b) => a - b);
    const at = (share: number): number => waits[Math.max(0, Math.ceil(share * waits.length) - 1)] ?? 0;
    const sum = waits.reduce((total, each) => total + each, 0);
    const within = waits.filter((each) => each <= this.#targetWait).length;
    return {
      summary: {
        ...{ added: this.#added, done: this.#done, dead: this.#dead, left },
        workerHours: this.#workerMs / 3_600_000,
        utilisation: this.#workerMs === 0 ? 0 : this.#busyMs / this.#workerMs,
        ...{ starts: this.#starts, turns: this.#turns, peakWorkers: this.#peakWorkers },
        meanDepth: this.#depthMs / this.#duration,
        peakDepth: this.#peakDepth,
        wait: {
          mean: waits.length === 0 ? 0 : sum / waits.length,
          p50: at(0.5),
          p95: at(0.95),
          p99: at(0.99),
          max: at(1),
        },
        withinTarget: waits.length === 0 ? 1 : within / waits.length,
      },
      points: this.#points,
      decisions: this.#decisions,
    };
  }
}

function noPart(): { added: number; started: number; waitMs: number; depthMs: number; workerMs: number } {
  return { added: 0, started: 0, waitMs: 0, depthMs: 0, workerMs: 0 };
}
