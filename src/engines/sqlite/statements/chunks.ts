/** The sizes for which statements over many rows are prepared: to bind a single row costs more than to insert it. */
const SIZES = [64, 8, 1] as const;

/** Divides a list into chunks of those sizes, in order. */
export function* chunks<T>(list: readonly T[]): Iterable<readonly T[]> {
  let from = 0;
  for (const size of SIZES) {
    for (; list.length - from >= size; from += size) yield list.slice(from, from + size);
  }
}

/** The same SQL for each size, made once: `row(i)` is the part that is repeated. */
export function sized(before: string, row: (index: number) => string, after = ""): (size: number) => string {
  const made = new Map<number, string>();
  for (const size of SIZES)
    made.set(size, before + Array.from({ length: size }, (_, i) => row(i)).join(", ") + after);
  return (size) => made.get(size)!;
}
