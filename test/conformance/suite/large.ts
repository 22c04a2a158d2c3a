// Large payloads, for the cases about the size of an answer: claim-sizes.ts and pages.ts.

const made = new Map<number, string>();

/**
 * Digits that hardly repeat, so that no store can compress them. Made once for each size: for each task, it took half of
 * the CPU time of these cases.
 */
export function large(bytes: number): string {
  let data = made.get(bytes);
  if (data === undefined) {
    const numbers = Array.from({ length: bytes / 8 }, (_, i) => (i * 7919) % 1e7);
    made.set(bytes, (data = JSON.stringify(numbers.join("-")).slice(0, bytes)));
  }
  return data;
}
