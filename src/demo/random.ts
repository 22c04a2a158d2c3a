// Random numbers for the demo's traffic.

/** How many arrivals a span brings in which `mean` are expected. Independent customers arrive like this. */
export function arrivals(mean: number): number {
  if (mean > 50) return Math.max(0, Math.round(mean + Math.sqrt(mean) * normal()));
  const limit = Math.exp(-mean);
  let count = 0;
  for (let product = Math.random(); product > limit; product *= Math.random()) count++;
  return count;
}

function normal(): number {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}

/** Most values are near the mean, a few are several times as large, as service times are. */
export function around(mean: number): number {
  return Math.round(mean * Math.exp(0.5 * normal() - 0.125));
}

export function chance(share: number): boolean {
  return Math.random() < share;
}

export function pick<T>(values: readonly T[]): T {
  return values[Math.floor(Math.random() * values.length)]!;
}

export function between(least: number, most: number): number {
  return least + Math.floor(Math.random() * (most - least + 1));
}
