/**
 * Divides the workers that one machine may have among its pools. Each gets its minimum first; the rest goes to those
 * that want more, one after the other, so that the smallest wish is met first (max-min fairness).
 */
export function share(cap: number, wants: readonly { min: number; size: number }[]): number[] {
  const given = wants.map(() => 0);
  let left = cap;
  const rise = (to: (want: { min: number; size: number }) => number): void => {
    for (;;) {
      const hungry = wants.flatMap((want, at) => (given[at]! < to(want) ? [at] : []));
      if (hungry.length === 0 || left === 0) return;
      const fewest = Math.min(...hungry.map((at) => given[at]!));
      const next = hungry.find((at) => given[at] === fewest)!;
      given[next]!++;
      left--;
    }
  };
  rise(({ min, size }) => Math.min(min, size));
  rise(({ size }) => size);
  return given;
}
