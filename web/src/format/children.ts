/**
 * A handler that waits for its children has parked its task for a signal that no caller sends:
 * core/handler/children-signal.ts.
 */
const PREFIX = "children:";

export function isForChildren(signal: string | null): boolean {
  return signal?.startsWith(PREFIX) ?? false;
}
