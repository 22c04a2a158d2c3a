import type { AdminAction } from "./guard.ts";

/** Declarations that are remembered as reported. */
const REMEMBERED = 1_000;

/**
 * The audit trail of a server. A program whose declaration is refused keeps declaring it, each time it starts: of these the
 * trail has one line for each token and name, until it is forgotten for others.
 */
export function withoutRepeats(audit: (action: AdminAction) => void): (action: AdminAction) => void {
  const reported = new Set<string>();
  return (action) => {
    if (action.refused) {
      const key = JSON.stringify(action);
      if (reported.has(key)) return;
      reported.add(key);
      if (reported.size > REMEMBERED) reported.delete(reported.values().next().value!);
    }
    audit(action);
  };
}
