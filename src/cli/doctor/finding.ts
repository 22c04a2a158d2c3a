/** What one check of `dibs doctor` found. A warning works today; a problem does not, or loses data. */
export interface Finding {
  check: string;
  status: "ok" | "warning" | "problem";
  message: string;
  /** What to do about it. */
  advice: string | null;
}

export const ok = (check: string, message: string): Finding => ({
  check,
  status: "ok",
  message,
  advice: null,
});

export const warning = (check: string, message: string, advice: string): Finding => ({
  ...{ check, status: "warning", message, advice },
});

export const problem = (check: string, message: string, advice: string): Finding => ({
  ...{ check, status: "problem", message, advice },
});

/** A store's or a machine's clock that differs by less than this is normal. */
const MOST_SKEW_MS = 2_000;

/** `theirs`: the time of the other machine, between two readings of this one's clock. */
export function checkClock(of: string, theirs: number, before: number, after: number): Finding {
  const skew = Math.round(theirs - (before + after) / 2);
  if (Math.abs(skew) <= MOST_SKEW_MS + (after - before))
    return ok("clock", `The clock of ${of} agrees with this machine's.`);
  return warning(
    "clock",
    `The clock of ${of} differs from this machine's by ${(skew / 1_000).toFixed(1)} s.`,
    "dibs uses only the store's clock, so nothing is wrong with the tasks. Ages that commands print are off: synchronise the clocks (NTP).",
  );
}
