import type { TaskError } from "./task.ts";

/** Anything can be thrown; this is what the ledger keeps of it. Causes are listed under the stack. */
export function describeError(thrown: unknown): TaskError {
  if (!(thrown instanceof Error)) return { name: "Error", message: text(thrown), stack: null };
  return { name: thrown.name || "Error", message: thrown.message, stack: stackWithCauses(thrown) };
}

function stackWithCauses(error: Error): string | null {
  const lines = [error.stack ?? `${error.name}: ${error.message}`];
  let cause = error.cause;
  for (let depth = 0; depth < 5 && cause !== undefined; depth++) {
    lines.push(`caused by ${cause instanceof Error ? (cause.stack ?? cause.message) : text(cause)}`);
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return lines.join("\n");
}

function text(thrown: unknown): string {
  if (typeof thrown === "string") return thrown;
  try {
    return JSON.stringify(thrown) ?? String(thrown);
  } catch {
    return String(thrown);
  }
}
