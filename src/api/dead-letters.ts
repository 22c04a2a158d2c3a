import { refuseSurplus } from "../core/input/arguments.ts";
import { type Duration, parseDuration } from "../core/time/duration.ts";
import { invalid } from "../core/errors/errors.ts";
import { checkNames, checkNumber, checkObject } from "../core/input/options.ts";
import type { Port } from "../core/port.ts";
import type { Payloads } from "../core/answer/preview.ts";
import { show } from "../core/errors/show.ts";
import type { DeadFilter, DeadPattern, PatternKey } from "../core/task/task.ts";
import { describe, type TaskInfo } from "./task-handle.ts";

/** Selects dead letters. All given fields must match; without fields, all. */
export interface DeadSelection {
  ids?: string[] | undefined;
  /** A fingerprint, as `patterns()` gives it. */
  pattern?: string | undefined;
  /** A part of the error's name or message; case does not matter. */
  error?: string | undefined;
}

export interface DeadPatternInfo extends Omit<DeadPattern, "firstAt" | "lastAt"> {
  firstAt: Date;
  lastAt: Date;
}

const SELECTION = ["ids", "pattern", "error"];
const PAGE = 50;

/** The dead letters of one queue. */
export class DeadLetters {
  readonly #port: Port;
  readonly #queue: string;

  constructor(port: Port, queue: string) {
    this.#port = port;
    this.#queue = queue;
  }

  /**
   * A page, the earliest death first. Pass `next` as `after` to get the following page. A page ends at its limit, or at
   * about 4 MiB. Payloads are complete, because they are needed to examine a dead letter; `payloads: "preview"`
   * shortens large ones.
   */
  async list(
    options: DeadSelection & {
      after?: string | undefined;
      limit?: number | undefined;
      payloads?: Payloads | undefined;
    } = {},
  ): Promise<{ tasks: TaskInfo[]; next: string | null }> {
    const filter = selectionOf(options, ["after", "limit", "payloads"]);
    const { after, limit = PAGE, payloads = "full" } = options;
    const page = await this.#port.list({ queue: this.#queue, state: "dead", filter, after, limit, payloads });
    return { tasks: page.tasks.map(describe), next: page.next };
  }

  /** Kinds of failure, the most frequent first. */
  async patterns(
    options: { by?: PatternKey | undefined; limit?: number | undefined } = {},
  ): Promise<DeadPatternInfo[]> {
    checkNames(options, ["by", "limit"], "patterns");
    const by = options.by ?? "fingerprint";
    if (by !== "fingerprint" && by !== "worker" && !(typeof by === "string" && /^header:./.test(by))) {
      throw invalid(`by must be "fingerprint", "worker" or "header:NAME"; got ${show(by)}.`);
    }
    const patterns = await this.#port.patterns(this.#queue, by, options.limit ?? PAGE);
    return patterns.map((row) => ({ ...row, firstAt: new Date(row.firstAt), lastAt: new Date(row.lastAt) }));
  }

  /** Puts the dead letters at the end of the line with all their attempts, at once or at a rate. */
  async redrive(
    options: DeadSelection & {
      rate?: { max: number; per: Duration } | undefined;
      /** Without the steps of earlier attempts. */
      fresh?: boolean | undefined;
    } = {},
  ): Promise<{ count: number }> {
    const filter = selectionOf(options, ["rate", "fresh"]);
    const spacing = options.rate === undefined ? 0 : parseRate(options.rate);
    const fresh = options.fresh === undefined ? {} : { fresh: options.fresh };
    return { count: await this.#port.redrive(this.#queue, filter, spacing, fresh) };
  }

  /** Removes the dead letters for good. Requires a selection, or `{ all: true }`. */
  async discard(options: DeadSelection & { all?: boolean | undefined }): Promise<{ count: number }> {
    checkObject(options, "What to discard");
    const { all, ...selection } = options;
    const filter = selectionOf(selection, []);
    if (Object.keys(filter).length === 0 && all !== true) {
      throw invalid("Say which dead letters to discard: { ids }, { pattern }, { error }, or { all: true }.");
    }
    return { count: await this.#port.discard(this.#queue, filter) };
  }
}

function selectionOf(options: DeadSelection, alsoKnown: string[]): DeadFilter {
  checkObject(options, "The selection");
  checkNames(options, [...SELECTION, ...alsoKnown], "dead-letter");
  const { ids, pattern, error } = options;
  return {
    ...(ids !== undefined && { ids }),
    ...(pattern !== undefined && { pattern }),
    ...(error !== undefined && { error }),
  };
}

/** Milliseconds between two tasks. It may be a fraction: the engine rounds each due time. */
function parseRate(rate: { max: number; per: Duration }): number {
  checkObject(rate, "rate");
  checkNames(rate, ["max", "per"], "rate");
  return parseDuration(rate.per, "rate.per", 1) / checkNumber(rate.max, "rate.max", 1, 1e9);
}

refuseSurplus(DeadLetters, "queue.dead", {
  promises: { list: "options", patterns: "options", redrive: "options", discard: "options" },
});
