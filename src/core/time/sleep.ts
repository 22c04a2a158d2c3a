import type { Clock } from "./clock.ts";

/** Resolves after `ms`, or as soon as the signal aborts. Pools and alerts wait like this between two rounds. */
export function sleepUntil(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      cancel();
      signal.removeEventListener("abort", end);
      resolve();
    };
    const cancel = clock.after(ms, end);
    signal.addEventListener("abort", end, { once: true });
  });
}
