/** Numbers as sentences show them: short, with their unit. Pools, advice, alerts and the shell use them. */

/** Two digits are enough to judge a value by. */
export function showFigure(value: number): string {
  if (!Number.isFinite(value)) return "unlimited";
  return value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(2)));
}

export function showMs(ms: number): string {
  if (!Number.isFinite(ms)) return "forever";
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${showFigure(ms / 1_000)} s`;
  return ms < 7_200_000 ? `${showFigure(ms / 60_000)} min` : `${showFigure(ms / 3_600_000)} h`;
}

export function showRate(perSecond: number): string {
  return `${showFigure(perSecond)} tasks/s`;
}

export function showPercent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** "1 task", "2 tasks". */
export function countOf(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
