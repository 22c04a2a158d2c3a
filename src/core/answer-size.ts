import { LIMITS } from "./limits.ts";
import type { Body, TaskRecord } from "./task.ts";

/**
 * How many bytes an answer may have. Every answer with rows ends here as well as at its limit of rows; what is left comes
 * with the next page, or the next claim. The first row always fits, so that every page makes progress.
 */
export class AnswerSize {
  #bytes: number;
  #rows: number;

  constructor(bytes = 0, rows = 0) {
    this.#bytes = bytes;
    this.#rows = rows;
  }

  fits(bytes: number): boolean {
    return this.#rows === 0 || this.#bytes + bytes <= LIMITS.answerBytes;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
    this.#rows++;
  }

  /** To look ahead with: what is added to it does not count here. */
  copy(): AnswerSize {
    return new AnswerSize(this.#bytes, this.#rows);
  }
}

/** The first items that fit into one answer. */
export function fitting<T>(items: readonly T[], sizeOf: (item: T) => number): T[] {
  const size = new AnswerSize();
  const fit: T[] = [];
  for (const item of items) {
    const bytes = sizeOf(item);
    if (!size.fits(bytes)) break;
    size.add(bytes);
    fit.push(item);
  }
  return fit;
}

/** What a row takes beside its texts. */
export const ROW_BYTES = 512;

/** About: a text counts by its length, which costs nothing to ask for. */
export function sizeOfBody(body: Body | null): number {
  return body === null ? 0 : body.length;
}

export function sizeOfTask({ data, result, headers, error, progress }: TaskRecord): number {
  return ROW_BYTES + sizeOfBody(data) + sizeOfBody(result) + sizeOfRest({ headers, error, progress });
}

/** A row of any other listing, as JSON. */
export function sizeOfRow(row: object): number {
  return ROW_BYTES + JSON.stringify(row).length;
}

function sizeOfRest({
  headers,
  error,
  progress,
}: Pick<TaskRecord, "headers" | "error" | "progress">): number {
  let bytes = (error ? error.message.length + (error.stack?.length ?? 0) : 0) + (progress?.note?.length ?? 0);
  for (const name in headers) bytes += name.length + headers[name]!.length;
  return bytes;
}
