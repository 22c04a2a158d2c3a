import type { TaskError } from "../task/task.ts";

/** What the ledger stores of a thrown value. A handler can throw anything. Codes and causes are listed under the stack. */
export function describeError(thrown: unknown): TaskError {
  if (!isErrorLike(thrown)) return { name: "Error", message: text(thrown), stack: null };
  try {
    const { name, message } = thrown;
    const known = typeof name === "string" && name !== "";
    return { name: known ? name : "Error", message: text(message), stack: stackWithCauses(thrown) };
  } catch {
    // The failure must be recorded even if the error cannot be read. Otherwise the task would never be settled.
    return { name: "Error", message: "The thrown error cannot be read: its properties throw.", stack: null };
  }
}

/** Checks the shape: an error may come from another realm, or have been through JSON. */
function isErrorLike(thrown: unknown): thrown is Error {
  try {
    return thrown instanceof Error || typeof (thrown as Error | null | undefined)?.message === "string";
  } catch {
    return true;
  }
}

function stackWithCauses(error: Error): string | null {
  if (typeof error.stack !== "string" && error.cause === undefined) return null;
  const lines = [error.stack ?? `${error.name}: ${error.message}`, ...codesOf(error)];
  if (Array.isArray((error as AggregateError).errors)) {
    for (const part of (error as AggregateError).errors.slice(0, 5)) {
      lines.push(`one of them ${part instanceof Error ? (part.stack ?? part.message) : text(part)}`);
      lines.push(...codesOf(part));
    }
  }
  let cause = error.cause;
  for (let depth = 0; depth < 5 && cause !== undefined; depth++) {
    lines.push(`caused by ${cause instanceof Error ? (cause.stack ?? cause.message) : text(cause)}`);
    lines.push(...codesOf(cause));
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return lines.join("\n");
}

/** Codes that libraries set in addition to the message: `code` of Node and databases, `status` of clients of HTTP. */
function codesOf(error: unknown): string[] {
  if (typeof error !== "object" || error === null) return [];
  const { code, status, statusCode } = error as Record<string, unknown>;
  const lines: [string, unknown][] = [
    ["code", code],
    ["status", status ?? statusCode],
  ];
  return lines.filter(([, value]) => isCode(value)).map(([name, value]) => `with ${name} ${String(value)}`);
}

function isCode(value: unknown): boolean {
  return typeof value === "number" ? Number.isInteger(value) : typeof value === "string" && CODE.test(value);
}

const CODE = /^[\w.:-]{1,40}$/;

function text(thrown: unknown): string {
  if (typeof thrown === "string") return thrown;
  try {
    return JSON.stringify(thrown) ?? String(thrown);
  } catch {
    return typeof thrown === "bigint" ? String(thrown) : Object.prototype.toString.call(thrown);
  }
}
