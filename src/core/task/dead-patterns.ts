import type { DeadFilter, DeadPattern, Headers, PatternKey } from "./task.ts";

/** Which dead letters match a filter, and how they are grouped. All engines use it. */

/** What a filter compares, besides ids. */
interface LastError {
  fingerprint: string;
  name: string;
  message: string;
}

/** Text is compared here and not in SQL, whose lower() depends on the database. */
export function matchesError(
  { fingerprint, name, message }: LastError,
  { pattern, error }: DeadFilter,
): boolean {
  return (
    (pattern === undefined || fingerprint === pattern) &&
    (error === undefined || `${name}: ${message}`.toLowerCase().includes(error.toLowerCase()))
  );
}

/** The group of a task whose dead letters are grouped by a header. */
export function headerPattern(headers: Headers, by: PatternKey): string {
  const name = by.slice("header:".length);
  return Object.hasOwn(headers, name) ? headers[name]! : "";
}

interface Group {
  pattern: string;
  count: number;
  firstAt: number;
  lastAt: number;
  /** The task that died last: the sample. */
  last: number;
}

/** Counts dead letters by pattern, in the order of their deaths. */
export class DeadGroups {
  readonly #groups = new Map<string, Group>();
  #total = 0;

  add(pattern: string, at: number, task: number): void {
    this.#total++;
    const group = this.#groups.get(pattern);
    if (group) Object.assign(group, { count: group.count + 1, lastAt: at, last: task });
    else this.#groups.set(pattern, { pattern, count: 1, firstAt: at, lastAt: at, last: task });
  }

  /** The largest first. */
  largest(limit: number): (Omit<DeadPattern, "sample"> & { last: number })[] {
    return [...this.#groups.values()]
      .sort((a, b) => b.count - a.count || (a.pattern < b.pattern ? -1 : 1))
      .slice(0, limit)
      .map((group) => ({ ...group, share: group.count / this.#total }));
  }
}
