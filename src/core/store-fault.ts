import type { DibsError, ErrorData } from "./errors.ts";

/**
 * Failures of the store itself, such as a full disk, and the place that they name. Their words are for whoever runs the
 * store. The broker marks them, and a server tells its clients less.
 */
const faults = new WeakMap<object, string | undefined>();

export function markStoreFault(error: unknown, place?: string): void {
  if (typeof error === "object" && error !== null) faults.set(error, place);
}

export function isStoreFault(error: unknown): boolean {
  return typeof error === "object" && error !== null && faults.has(error);
}

/** An error as the clients of a server are told of it: what happened and what to do, not where. */
export function errorForClients(error: DibsError): ErrorData {
  const { code, message, retryable } = error;
  if (!isStoreFault(error)) return { code, message, retryable };
  const place = faults.get(error);
  const words = withoutCauses(place ? message.replaceAll(place, HIDDEN) : message);
  return { code, message: `${words} The log of the server says more.`, retryable };
}

const HIDDEN = "***";

/** Causes are in parentheses, in the words of SQLite, PostgreSQL or the system: these may name files and hosts, too. */
function withoutCauses(message: string): string {
  let [kept, depth] = ["", 0];
  for (const sign of message) {
    if (sign === "(") depth++;
    if (depth === 0) kept += sign;
    if (sign === ")") depth = Math.max(0, depth - 1);
  }
  return kept.replaceAll(/ +([.,:;]|$)/g, "$1").replaceAll(/ {2,}/g, " ");
}
