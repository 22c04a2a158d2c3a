/** When an idempotency key is taken, by which task, and when it expires. Used by all engines, or as a comparison in SQL. */

/** A key is valid for this long after the end of its task, in milliseconds. */
export const KEY_AFTER_END = 86_400_000;

/** When the key of a task that ends now becomes free. */
export function keyExpiresAt(endedAt: number): number {
  return endedAt + KEY_AFTER_END;
}

/** `forgetAt`: when the key expires; null while its task is pending. */
export function isTaken({ forgetAt }: { forgetAt: number | null }, now: number): boolean {
  return forgetAt === null || forgetAt > now;
}
