/** Numbers as the page shows them: short in tables, exact on hover. A missing value is an en dash. */

const NONE = "–";
/** What the server says for `maxAttempts: null`. */
export const UNLIMITED = 2 ** 31 - 1;
const exact = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 2 });

/** 7, 999, 12.4k, 3.1M */
export function showCount(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size < 10_000) return exact.format(Math.round(value));
  if (size < 999_500) return `${digits(value / 1_000)}k`;
  if (size < 999_500_000) return `${digits(value / 1_000_000)}M`;
  return `${digits(value / 1_000_000_000)}G`;
}

/** 0, 0.4, 9.8, 120, 5.0k: tasks per second. */
export function showRate(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return NONE;
  if (value === 0) return "0";
  if (value < 0.05) return "<0.1";
  if (value < 100) return value.toFixed(1);
  return value < 10_000 ? exact.format(Math.round(value)) : showCount(value);
}

/** 0 %, 0.4 %, 12 % */
export function showShare(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return NONE;
  const percent = value * 100;
  if (percent === 0) return "0 %";
  if (percent < 0.1) return "<0.1 %";
  return percent < 10 ? `${percent.toFixed(1)} %` : `${Math.round(percent)} %`;
}

export function showExact(value: number | null | undefined): string {
  return value == null ? "not known" : exact.format(value);
}

export function showBytes(bytes: number): string {
  if (bytes < 1_024) return `${bytes} B`;
  if (bytes < 1_024 * 1_024) return `${digits(bytes / 1_024)} KiB`;
  return `${digits(bytes / 1_024 / 1_024)} MiB`;
}

/** "1 task", "214 tasks" */
export function countOf(count: number, noun: string, plural = `${noun}s`): string {
  return `${exact.format(count)} ${count === 1 ? noun : plural}`;
}

function digits(value: number): string {
  return Math.abs(value) < 99.95 ? value.toFixed(1) : String(Math.round(value));
}

/** 2/5, or 2 where there is no limit. */
export function showAttempt(attempt: number, most: number): string {
  return most === UNLIMITED ? String(attempt) : `${attempt}/${most}`;
}
