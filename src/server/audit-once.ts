import type { AdminAction } from "./guard.ts";

/** How many refused declarations are remembered as reported. */
const REMEMBERED = 1_000;

/**
 * Drops repeated audit entries. A program whose declaration is refused repeats it each time it starts: the log gets one
 * line per token and name, until it is forgotten.
 */
export function auditOnce(audit: (action: AdminAction) => void): (action: AdminAction) => void {
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
