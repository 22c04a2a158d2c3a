import { fstatSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** A program that starts dibs with a pipe, and neither writes nor closes it, would let it wait without end. */
const LONGEST_WAIT_MS = 1_000;

/**
 * Whether standard input is a pipe or a file that has, or may still get, something to read. `dibs add` asks before it
 * adds a task without a payload: the input is probably meant to be one. Cron gives its commands a pipe that is empty.
 */
export async function hasUnreadInput(): Promise<boolean> {
  if (!isPipeOrFile()) return false;
  const { stdin } = process;
  const ended = new Promise<boolean>((resolve) => {
    stdin.once("data", () => resolve(true));
    stdin.once("end", () => resolve(false));
    stdin.once("error", () => resolve(false));
  });
  const tooLate = new AbortController();
  try {
    const waited = sleep(LONGEST_WAIT_MS, true, { signal: tooLate.signal }).catch(() => true);
    return await Promise.race([ended, waited]);
  } finally {
    tooLate.abort();
    stdin.destroy();
  }
}

function isPipeOrFile(): boolean {
  try {
    const input = fstatSync(0);
    return input.isFIFO() || input.isSocket() || input.isFile();
  } catch {
    // Standard input is closed.
    return false;
  }
}
