import { invalid } from "./errors.ts";
import { show } from "./show.ts";

type Unit = "ms" | "s" | "m" | "h" | "d";

/**
 * `"250ms"`, `"1.5s"`, `"5m"`, `"2h"`, `"1d"`, or a number of milliseconds. Of digits, and not of `${number}`: that would be "5 m" and "1e3s",
 * too. What is computed is given in milliseconds.
 */
export type Duration = number | `${bigint}${Unit}` | `${bigint}.${bigint}${Unit}`;

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Ten years: longer is more likely a mistake of units than a wish. */
export const LONGEST_MS = 3_650 * 86_400_000;

/** A duration in whole milliseconds, within bounds. `what` names it in the error, as in "lease". */
export function parseDuration(value: unknown, what: string, least = 0, most = LONGEST_MS): number {
  const ms = typeof value === "string" ? fromText(value) : value;
  if (typeof ms !== "number" || !Number.isFinite(ms)) {
    throw invalid(
      `${what} must be a duration such as "250ms", "30s", "5m", "2h" or "1d", or a number of milliseconds; got ${show(value)}.`,
    );
  }
  if (ms < least || ms > most) {
    throw invalid(
      `${what} must be between ${least} ms and ${most / UNIT_MS["d"]!} days; got ${show(value)}.`,
    );
  }
  // "2.007s" is 2007.0000000000002 in binary: what lies that far behind the point is not a wish for one more.
  return Math.ceil(Number(ms.toFixed(3)));
}

function fromText(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text);
  return match ? Number(match[1]) * UNIT_MS[match[2]!]! : undefined;
}
