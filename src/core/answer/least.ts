/** The smallest of these numbers; Infinity for none. `Math.min(...values)` overflows the stack with 100,000 of them. */
export function least(values: Iterable<number>): number {
  let smallest = Number.POSITIVE_INFINITY;
  for (const value of values) if (value < smallest) smallest = value;
  return smallest;
}
