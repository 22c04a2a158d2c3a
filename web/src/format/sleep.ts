/**
 * A handler that sleeps has parked its task for a signal that no caller needs to send: core/handler/sleep-signal.ts.
 */
const PREFIX = "sleep:";

export function isSleep(signal: string | null): boolean {
  return signal?.startsWith(PREFIX) ?? false;
}

/** The second sleep of a handler: "sleep 2". */
export function sleepName(signal: string): string {
  return `sleep ${signal.slice(PREFIX.length)}`;
}
