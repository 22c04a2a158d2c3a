/**
 * `task.sleep()` parks its task for a signal that no caller needs to send: the n-th sleep of a handler waits for
 * "sleep:n" and ends with its timeout. Sending that signal ends it early. Unlike other timeouts, a sleep that is over
 * stays over when the task is redriven: it counts as a step.
 */
export const SLEEP_PREFIX = "sleep:";

export function sleepSignal(n: number): string {
  return `${SLEEP_PREFIX}${n}`;
}

export function isSleepSignal(name: string): boolean {
  return name.startsWith(SLEEP_PREFIX);
}
