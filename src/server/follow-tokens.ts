import type { Clock } from "../core/time/clock.ts";
import type { Logger } from "../core/process/logger.ts";
import type { Access } from "./access.ts";
import type { AdminAction } from "./guard.ts";

/** How soon a revoked token ends the connections that it opened. */
export const TOKEN_CHECK_MS = 1_000;

interface Follower {
  access: Access;
  clock: Clock;
  logger: Logger;
}

/**
 * Follows the file of the tokens, which are created and revoked outside the server: records what changed, and has the
 * connections of revoked tokens ended. The returned function stops it.
 */
export function followTokens(
  { access, clock, logger }: Follower,
  audit: (action: AdminAction) => void,
  dismiss: () => void,
): () => void {
  let lastError = "";
  let stopTimer: () => void = () => {};
  const check = (): void => {
    try {
      for (const { verb, name } of access.changes()) audit({ by: "dibs tokens", verb, token: name });
      dismiss();
      lastError = "";
    } catch (error) {
      const { message } = error as Error;
      // Once, not for every check.
      if (message !== lastError) logger.error(message);
      lastError = message;
    }
    stopTimer = clock.after(TOKEN_CHECK_MS, check);
  };
  stopTimer = clock.after(TOKEN_CHECK_MS, check);
  return () => stopTimer();
}
