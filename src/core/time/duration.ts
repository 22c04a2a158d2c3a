import { invalid } from "../errors/errors.ts";
import { show } from "../errors/show.ts";

type Unit = "ms" | "s" | "m" | "h" | "d";

/**
 * `"250ms"`, `"1.5s"`, `"5m"`, `"2h"`, `"1d"`, or a number of milliseconds. The type uses `bigint`, not `number`,
 * because `${number}` would also accept "5 m" and "1e3s". Pass a computed duration in milliseconds.
 */
export type Duration = number | `${bigint}${Unit}` | `${bigint}.${bigint}${Unit}`;

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Ten years. A longer duration is more likely a mistake of units than intended. */
export const LONGEST_MS = 3_650 * 86_400_000;

/** Parses a duration into whole milliseconds and checks its bounds. `what` names it in the error, such as "lease". */
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
  // "2.007s" is 2007.0000000000002 ms in binary. Round at the third decimal, so that this does not become 2008 ms.
  return Math.ceil(Number(ms.toFixed(3)));
}

function fromText(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text);
  return match ? Number(match[1]) * UNIT_MS[match[2]!]! : undefined;
}
