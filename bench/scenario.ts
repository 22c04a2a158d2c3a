import { copyFile, mkdir, open as openFile, rename } from "node:fs/promises";
import { constants, existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Capability, Connection, Contender, QueueTraits } from "./contender.ts";

/** A measurement that can be repeated. It starts from scratch, in its own process. */
export interface Scenario {
  name: string;
  /** What is measured and how, in a sentence for the reader of the figures. */
  about: string;
  /** All contenders that support it, or dibs alone. */
  needs: readonly Capability[] | "dibs";
  /** Run once with a part of the work before the measurement, so that V8 has compiled the code. */
  warmUp?: boolean;
  run(bench: Bench): Promise<Figure[]>;
}

/** Whether this contender takes part. */
export function canRun({ needs }: Scenario, { name, can }: Contender): boolean {
  if (needs === "dibs") return name === "dibs";
  return needs.every((capability) => can.includes(capability));
}

export interface Figure {
  name: string;
  value: number;
  unit: "tasks/s" | "ms" | "µs" | "MB" | "times" | "claims" | "pages" | "connections";
  better: "more" | "less";
}

export const rate = (name: string, value: number): Figure => ({
  name,
  value,
  unit: "tasks/s",
  better: "more",
});
export const ms = (name: string, value: number): Figure => ({ name, value, unit: "ms", better: "less" });
export const microseconds = (name: string, value: number): Figure => ({
  name,
  value,
  unit: "µs",
  better: "less",
});
export const megabytes = (name: string, value: number): Figure => ({
  name,
  value,
  unit: "MB",
  better: "less",
});
/** One figure as a share of another one. */
export const times = (name: string, value: number): Figure => ({
  name,
  value,
  unit: "times",
  better: "more",
});
export const claims = (name: string, value: number): Figure => ({
  name,
  value,
  unit: "claims",
  better: "less",
});
/** Pages of 8 KiB, read from memory or from disk. */
export const pages = (name: string, value: number): Figure => ({
  name,
  value,
  unit: "pages",
  better: "less",
});

export const connections = (name: string, value: number): Figure => ({
  name,
  value,
  unit: "connections",
  better: "less",
});

/** What the benchmark sends to the measuring process. */
export interface BenchSettings {
  address: string;
  /** The process group of the contender's server, if its memory can be measured. */
  group: number | undefined;
  /** Empty, and removed afterwards. */
  folder: string;
  /** Stays until the end of the benchmark, for files that take long to make. */
  cache: string;
  short: boolean;
  long: boolean;
  /** This is the warm-up; it does not count. */
  warmUp?: boolean;
}

/** Share of the work in the warm-up. With a fiftieth, the first of several figures was a third below the second. */
const WARM_UP_SHARE = 5;
const SLOW_SHARE = 10;
const MEGABYTE = 1 << 20;
const REST_MS_A_MEGABYTE = 10;

export class Bench {
  readonly contender: Contender;
  readonly settings: BenchSettings;
  readonly #isSlow: boolean;
  readonly #connections: Connection[] = [];

  constructor(contender: Contender, settings: BenchSettings, scenario: string) {
    this.contender = contender;
    this.settings = settings;
    this.#isSlow = contender.isSlow !== undefined && !contender.isSlow.but.includes(scenario);
  }

  /** Amount of work: for figures, or for `--short`. */
  size(full: number, short: number): number {
    if (this.settings.short) return short;
    const whole = this.#isSlow ? Math.ceil(full / SLOW_SHARE) : full;
    return this.settings.warmUp ? Math.max(short, Math.ceil(whole / WARM_UP_SHARE)) : whole;
  }

  /** Opens a queue; in the warm-up, the same name is another queue. Closed when the scenario is over. */
  async connect(queue: string, traits?: QueueTraits): Promise<Connection> {
    const connection = await this.contender.connect(this.settings.address, this.queueName(queue), traits);
    this.#connections.push(connection);
    return connection;
  }

  queueName(queue: string): string {
    return this.settings.warmUp ? `${queue}-warm-up` : queue;
  }

  /** The path of a new file for a store. */
  path(name: string): string {
    return join(this.settings.folder, `${name}.db`);
  }

  /** A copy of a file that is made once per benchmark. It is on disk before this resolves. */
  async prepared(name: string, make: (path: string) => Promise<void>): Promise<string> {
    const original = join(this.settings.cache, `${name}.db`);
    if (!existsSync(original)) {
      // A process that is killed while making it leaves no file that looks finished.
      const unfinished = join(this.settings.cache, "unfinished");
      await mkdir(unfinished, { recursive: true });
      await make(join(unfinished, `${name}.db`));
      await rename(join(unfinished, `${name}.db`), original);
    }
    const copy = this.path(name);
    await copyFile(original, copy, constants.COPYFILE_FICLONE);
    // Otherwise the disk would still be writing the copy while the scenario waits for its own commits.
    const file = await openFile(copy, "r+");
    await file.sync();
    const { size } = await file.stat();
    await file.close();
    // A disk continues to write its cache: after two gigabytes, its syncs took twice as long for a while.
    await sleep((size / MEGABYTE) * REST_MS_A_MEGABYTE);
    return copy;
  }

  async close(): Promise<void> {
    for (const connection of this.#connections.splice(0)) await connection.close();
  }
}
