import type { TaskError } from "./task.ts";

/** Anything can be thrown; this is what the ledger keeps of it. Causes are listed under the stack. */
export function describeError(thrown: unknown): TaskError {
  if (!(thrown instanceof Error)) return { name: "Error", message: text(thrown), stack: null };
  try {
    const { name, message } = thrown;
    const known = typeof name === "string" && name !== "";
    return { name: known ? name : "Error", message: text(message), stack: stackWithCauses(thrown) };
  } catch {
    // That it failed must still be told, or the task would never be settled.
    return { name: "Error", message: "An error was thrown that throws when it is read.", stack: null };
  }
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
    return typeof thrown === "bigint" ? String(thrown) : Object.prototype.toString.call(thrown);
  }
}
