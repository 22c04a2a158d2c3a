import { isDibsError } from "../core/errors.ts";

/** Exit codes for calling programs. Documented in docs/guides/server.md. */
export const EXIT = { done: 0, failed: 1, usage: 2, unavailable: 3, forbidden: 4 } as const;

export function exitCodeOf(error: unknown): number {
  if (!isDibsError(error)) return EXIT.failed;
  if (error.code === "INVALID") return EXIT.usage;
  if (error.code === "UNAVAILABLE") return EXIT.unavailable;
  return error.code === "FORBIDDEN" ? EXIT.forbidden : EXIT.failed;
}
