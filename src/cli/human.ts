/** Numbers, durations and times as people read them in tables. `--json` prints exact values instead. */

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const;

/** The two largest units: `3m 20s`, `2d 4h`. Below ten seconds with a tenth: `1.4s`; below one, milliseconds. */
export function formatDuration(ms: number): string {
  if (ms < 0) return `-${formatDuration(-ms)}`;
  if (ms < 1_000) return `${Math.round(ms)}ms`;
  if (ms < 10_000) return `${Math.floor(ms / 100) / 10}s`;
  const at = UNITS.findIndex(([, unit]) => ms >= unit);
  const [name, unit] = UNITS[at]!;
  const whole = Math.floor(ms / unit);
  const next = UNITS[at + 1];
  const rest = next === undefined ? 0 : Math.floor((ms % unit) / next[1]);
  return rest === 0 ? `${whole}${name}` : `${whole}${name} ${rest}${next![0]}`;
}

/** How long ago, or in how long. */
export function formatAge(time: Date | null, now: number = Date.now()): string {
  if (time === null) return "";
  const ms = now - time.getTime();
  return ms >= 0 ? formatDuration(ms) : `in ${formatDuration(-ms)}`;
}

export function formatCount(number: number): string {
  return number.toLocaleString("en");
}

/** `1 task`, `1,204 tasks`. */
export function count(number: number, what: string): string {
  return `${formatCount(number)} ${what}${number === 1 ? "" : "s"}`;
}

/** Tasks per second, with as many digits as say something. */
export function formatRate(perSecond: number): string {
  if (perSecond === 0) return "0";
  return perSecond >= 10 ? formatCount(Math.round(perSecond)) : perSecond.toFixed(perSecond >= 1 ? 1 : 2);
}

/** `1.2 kB`, `4.0 MB`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`;
  const units = ["kB", "MB", "GB", "TB"];
  let at = -1;
  let value = bytes;
  while (value >= 1_000 && at < units.length - 1) {
    value /= 1_000;
    at++;
  }
  return `${value.toFixed(1)} ${units[at]}`;
}
