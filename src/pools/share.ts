/**
 * Divides the workers that one machine may have among its pools. Each pool gets its minimum first. The rest goes to the
 * pools that request more, one worker at a time to the pool that has the fewest. So the smallest requests are met first
 * (max-min fairness). Returns the number of workers of each pool.
 */
export function share(cap: number, requests: readonly Request[]): number[] {
  const given = requests.map(() => 0);
  let remaining = cap;
  const giveUpTo = (limitOf: (request: Request) => number): void => {
    for (;;) {
      const unmet = requests.flatMap((request, at) => (given[at]! < limitOf(request) ? [at] : []));
      if (unmet.length === 0 || remaining === 0) return;
      const fewest = Math.min(...unmet.map((at) => given[at]!));
      const next = unmet.find((at) => given[at] === fewest)!;
      given[next]!++;
      remaining--;
    }
  };
  giveUpTo(({ min, size }) => Math.min(min, size));
  giveUpTo(({ size }) => size);
  return given;
}

interface Request {
  min: number;
  /** How many workers the pool's decision wants. */
  size: number;
}
