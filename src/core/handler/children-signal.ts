import { invalid } from "../errors/errors.ts";
import { LIMITS } from "../input/limits.ts";
import { show } from "../errors/show.ts";

/**
 * `task.waitForChildren()` parks its task for a signal that no caller sends: "children:1-3,7" arrives when the children
 * with these numbers have ended. The engines check that when a child ends and when a task parks.
 */
const PREFIX = "children:";

/** The signal of a task that waits for all its children. */
export const ALL_CHILDREN = `${PREFIX}1-${LIMITS.children}`;

export function isChildrenSignal(name: unknown): name is string {
  return typeof name === "string" && name.startsWith(PREFIX);
}

/** Neighbouring numbers become a range, so that the text stays short: most tasks wait for all their children. */
export function childrenSignal(numbers: readonly number[]): string {
  const ranges: [first: number, last: number][] = [];
  for (const n of numbers.toSorted((a, b) => a - b)) {
    const range = ranges.at(-1);
    if (range && n <= range[1] + 1) range[1] = n;
    else ranges.push([n, n]);
  }
  return PREFIX + ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(",");
}

/** Which children a signal is about. */
export interface Awaited {
  first: number;
  last: number;
  /** All numbers from the first to the last are awaited. */
  isWhole: boolean;
  has(n: number): boolean;
}

export function awaitedBy(signal: string): Awaited {
  const ranges = signal
    .slice(PREFIX.length)
    .split(",")
    .map((text) => {
      const [first, last = first] = text.split("-").map(Number) as [number, number?];
      return { first, last };
    });
  return {
    first: ranges[0]!.first,
    last: ranges.at(-1)!.last,
    isWhole: ranges.length === 1,
    has: (n) => ranges.some(({ first, last }) => first <= n && n <= last),
  };
}

const FORM = /^children:\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*$/;
/** A list of every other number up to LIMITS.children has fewer characters. */
const LONGEST = 4_096;

/** A client may write such a signal itself. Its ranges must be in order, because engines read only the first and last. */
export function checkChildrenSignal(signal: string): void {
  const isWellFormed = signal.length <= LONGEST && FORM.test(signal);
  const numbers = isWellFormed ? signal.slice(PREFIX.length).split(/[,-]/).map(Number) : [];
  const isOrdered = numbers.every((n, i) => n >= (numbers[i - 1] ?? 1) && n <= LIMITS.children);
  if (!isWellFormed || !isOrdered)
    throw invalid(
      `A task waits for its children with a signal like "children:1-3,7": numbers in order, from 1 to ${LIMITS.children}; got ${show(signal)}.`,
    );
}
