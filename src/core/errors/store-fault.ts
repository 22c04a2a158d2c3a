import type { DibsError, ErrorData } from "./errors.ts";

/**
 * Marks failures of the store itself, such as a full disk, together with the address that their messages contain. Their
 * messages are for the operator of the store: the broker marks them, and a server shows its clients less.
 */
const faults = new WeakMap<object, string | undefined>();

export function markStoreFault(error: unknown, place?: string): void {
  if (typeof error === "object" && error !== null) faults.set(error, place);
}

export function isStoreFault(error: unknown): boolean {
  return typeof error === "object" && error !== null && faults.has(error);
}

/** The error as the clients of a server get it: what happened and what to do, but not where. */
export function errorForClients(error: DibsError): ErrorData {
  const { code, message, retryable } = error;
  if (!isStoreFault(error)) return { code, message, retryable };
  const place = faults.get(error);
  const words = withoutCauses(place ? message.replaceAll(place, HIDDEN) : message);
  return { code, message: `${words} The log of the server says more.`, retryable };
}

const HIDDEN = "***";

/** Causes are in parentheses, as SQLite, PostgreSQL or the system report them. They may name files and hosts. */
function withoutCauses(message: string): string {
  let [kept, depth] = ["", 0];
  for (const sign of message) {
    if (sign === "(") depth++;
    if (depth === 0) kept += sign;
    if (sign === ")") depth = Math.max(0, depth - 1);
  }
  return kept.replaceAll(/ +([.,:;]|$)/g, "$1").replaceAll(/ {2,}/g, " ");
}
