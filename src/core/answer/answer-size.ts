import { LIMITS } from "../input/limits.ts";
import type { Attempt, Body, Headers, TaskEnd, TaskError, TaskRecord } from "../task/task.ts";

/**
 * Limits the bytes of one answer. Every engine uses it for pages and claims. An answer ends at this size as well as at
 * its limit of rows; the next page, or the next claim, returns the rest. The first row always fits, so that every page
 * makes progress.
 */
export class AnswerSize {
  #bytes: number;
  #rows: number;
  #isFull = false;

  constructor(bytes = 0, rows = 0) {
    this.#bytes = bytes;
    this.#rows = rows;
  }

  fits(bytes: number): boolean {
    if (this.#isFull) return false;
    return this.#rows === 0 || this.#bytes + bytes <= LIMITS.answerBytes;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
    this.#rows++;
  }

  /** A row did not fit. No later row may be added, because rows must not overtake each other. */
  close(): void {
    this.#isFull = true;
  }

  get isFull(): boolean {
    return this.#isFull;
  }

  /** A copy for looking ahead. Rows added to the copy do not count here. */
  copy(): AnswerSize {
    const copy = new AnswerSize(this.#bytes, this.#rows);
    copy.#isFull = this.#isFull;
    return copy;
  }
}

/** The first items that fit into one answer. */
export function fitting<T>(items: readonly T[], sizeOf: (item: T) => number): T[] {
  return items.slice(0, countFitting(items, sizeOf, new AnswerSize()));
}

/** The last items that fit into one answer, in their order. */
export function fittingLast<T>(items: readonly T[], sizeOf: (item: T) => number): T[] {
  return fitting(items.toReversed(), sizeOf).toReversed();
}

/** How many of the first items still fit into `answer`. Does not add them. */
export function countFitting<T>(
  items: readonly T[],
  sizeOf: (item: T, index: number) => number,
  answer: AnswerSize,
): number {
  const size = answer.copy();
  for (const [index, item] of items.entries()) {
    const bytes = sizeOf(item, index);
    if (!size.fits(bytes)) return index;
    size.add(bytes);
  }
  return items.length;
}

/**
 * The largest payload that a claim of at most `max` tasks reads together with its row: if all payloads have this size,
 * the answer is full. For larger ones a claim reads the size first, and the payload only if the task fits.
 */
export function inlineBytes(max: number): number {
  return Math.floor(LIMITS.answerBytes / max);
}

/** Size of a row without its texts. */
export const ROW_BYTES = 512;

/** Approximate: counts the length of a text in characters, which costs nothing to read. */
export function sizeOfBody(body: Body | null): number {
  return body === null ? 0 : body.length;
}

export function sizeOfTask({ data, result, headers, error, progress }: TaskRecord): number {
  return ROW_BYTES + sizeOfBody(data) + sizeOfBody(result) + sizeOfRest({ headers, error, progress });
}

export function sizeOfDocument({ value }: { value: string }): number {
  return ROW_BYTES + value.length;
}

/** A row of any other list, as JSON. */
export function sizeOfRow(row: object): number {
  return ROW_BYTES + JSON.stringify(row).length;
}

/**
 * A task in a claim's answer, by the lengths of its payload and headers. A verifier's feedback is not counted, because
 * LIMITS.errorMessage bounds it.
 */
export function sizeOfClaimed(data: number, headers: number): number {
  return ROW_BYTES + data + headers;
}

/** What callers that wait for the end of a task get. */
export function sizeOfEnd(end: TaskEnd | string): number {
  return typeof end === "string" ? end.length : ROW_BYTES + sizeOfBody(end.result) + sizeOfError(end.error);
}

export function sizeOfAttempt({ error, log = [] }: Pick<Attempt, "error" | "log">): number {
  return ROW_BYTES + sizeOfError(error) + log.reduce((sum, { text }) => sum + text.length, 0);
}

export function sizeOfError(error: TaskError | null): number {
  return error ? error.message.length + (error.stack?.length ?? 0) : 0;
}

export function sizeOfHeaders(headers: Headers): number {
  let bytes = 0;
  for (const name in headers) bytes += name.length + headers[name]!.length;
  return bytes;
}

function sizeOfRest({
  headers,
  error,
  progress,
}: Pick<TaskRecord, "headers" | "error" | "progress">): number {
  return sizeOfError(error) + (progress?.note?.length ?? 0) + sizeOfHeaders(headers);
}
