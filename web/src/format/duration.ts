/** Durations and instants as the page shows them. Input is in milliseconds. */

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const;

/** 4 ms, 1.6 s, 45 s, 3m 20s, 2h 5m, 3d 4h */
export function showDuration(ms: number | null | undefined): string {
  if (ms == null || !Number.isFinite(ms)) return "–";
  if (ms < 0.5) return "0 s";
  if (ms < 995) return `${ms < 10 ? Number(ms.toFixed(1)) : Math.round(ms)} ms`;
  if (ms < 9_950) return `${(ms / 1_000).toFixed(1)} s`;
  if (ms < 59_500) return `${Math.round(ms / 1_000)} s`;
  const rounded = ms < 3_600_000 ? Math.round(ms / 1_000) * 1_000 : Math.round(ms / 60_000) * 60_000;
  const at = UNITS.findIndex(([, size]) => rounded >= size);
  const [unit, size] = UNITS[at]!;
  const whole = Math.floor(rounded / size);
  const next = UNITS[at + 1];
  const rest = next === undefined ? 0 : Math.floor((rounded - whole * size) / next[1]);
  return rest === 0 ? `${whole}${unit}` : `${whole}${unit} ${rest}${next![0]}`;
}

/** As a policy is written: "30s", "250ms", "1.5h". */
export function writeDuration(ms: number): string {
  for (const [unit, size] of UNITS) if (ms >= size && ms % size === 0) return `${ms / size}${unit}`;
  return `${ms}ms`;
}

/** The milliseconds of "30s", "250ms", "1.5h" or a plain number; null if it is none of them. */
export function readDuration(text: string): number | null {
  const [, number, unit = "ms"] = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*$/.exec(text) ?? [];
  if (number === undefined) return null;
  const size = unit === "ms" ? 1 : UNITS.find(([name]) => name === unit)![1];
  return Math.round(Number(number) * size);
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long" });

/** 14:03:22 today, 12 Nov 14:03:22 otherwise. */
export function showInstant(at: number, now: number): string {
  const isToday = new Date(at).toDateString() === new Date(now).toDateString();
  return isToday ? clock.format(at) : `${day.format(at)} ${clock.format(at)}`;
}

export function showFullInstant(at: number): string {
  return full.format(at);
}

/** "4 s ago", "in 3m 20s", "now" */
export function showDistance(at: number, now: number): string {
  const away = at - now;
  if (Math.abs(away) < 950) return "now";
  const text = showSeconds(Math.abs(away));
  return away < 0 ? `${text} ago` : `in ${text}`;
}

/** Whole seconds, for what is looked at while it passes: tenths would only jump. 4 s, 3m 20s */
export function showSeconds(ms: number): string {
  const rounded = Math.round(ms / 1_000) * 1_000;
  return rounded < 60_000 ? `${rounded / 1_000} s` : showDuration(rounded);
}
