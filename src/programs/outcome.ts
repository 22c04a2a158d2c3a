import { Reject, Retry } from "../core/handler/control.ts";
import { parseDuration } from "../core/time/duration.ts";
import { byteLength } from "../core/input/limits.ts";
import type { Task } from "../worker/task.ts";
import { type Ended, OUTPUT_BYTES } from "./launch.ts";

/**
 * What the exit of a program means for its task. programs.ts calls it; the codes are documented in
 * docs/guides/programs.md.
 */

/** Exit codes with a meaning, as in sysexits.h. */
export const PROGRAM_EXIT = { done: 0, reject: 65, retry: 75 } as const;

/** Returns the result, or throws what fails the task. Exit 75 with a duration on standard output releases it. */
export async function outcomeOf(task: Task, ended: Ended): Promise<unknown> {
  const { code, output } = ended;
  if (code === PROGRAM_EXIT.done) return resultOf(output);
  const reason = reasonOf(ended);
  if (code === PROGRAM_EXIT.reject) throw withoutStack(new Reject(reason));
  if (code !== PROGRAM_EXIT.retry) throw failure(reason);
  const delay = durationIn(output.text);
  if (delay === undefined) throw withoutStack(new Retry(reason));
  // The program says how long to wait: it has not failed.
  await task.release({ delay });
  return undefined;
}

/** Why it failed: the last lines of standard error, or how it ended. */
export function reasonOf({ code, signal, errors }: Ended): string {
  const how = signal === null ? `exit code ${code}` : `ended by ${signal}`;
  const text = errors.text.trim();
  if (text === "") return how;
  return errors.missing > 0 ? `${how}: … ${text}` : `${how}: ${text}`;
}

/** JSON if it is JSON, otherwise text; nothing if the program wrote nothing. */
function resultOf(output: Ended["output"]): unknown {
  if (output.missing > 0) return clipped(output.text, output.missing);
  const text = output.text.trim();
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    // As JSON, a text of control characters may take six times its bytes.
    const bytes = byteLength(JSON.stringify(text));
    return bytes <= OUTPUT_BYTES ? text : clipped(text, bytes - text.length);
  }
}

/** Leaves room for the quotes and escapes of JSON, and for the note. */
const CLIPPED = OUTPUT_BYTES / 8;

function clipped(text: string, missing: number): string {
  const kept = text.slice(0, CLIPPED);
  return `${kept}… (${missing + text.length - kept.length} more bytes were not stored)`;
}

function failure(reason: string): Error {
  const error = new Error(reason);
  error.name = "ProgramError";
  return withoutStack(error);
}

/** The stack would show this file, which says nothing about the program. */
function withoutStack(error: Error): Error {
  delete error.stack;
  return error;
}

function durationIn(text: string): number | undefined {
  try {
    return parseDuration(text.trim(), "the delay");
  } catch {
    return undefined;
  }
}
