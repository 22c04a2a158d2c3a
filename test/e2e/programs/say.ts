import { writeSync } from "node:fs";

/**
 * One line to the test. Written before this returns, so that neither SIGKILL nor a blocked event loop can swallow it.
 * (process.stdout would be asynchronous, and must not be touched: it makes the pipe non-blocking.)
 */
export function say(said: string, details: object = {}): void {
  writeSync(1, `${JSON.stringify({ said, ...details })}\n`);
}

export function readOptions(): unknown {
  // The test is gone: no one listens or cleans up.
  process.once("disconnect", exit);
  return JSON.parse(process.argv[2]!);
}

/** The test no longer keeps this process alive: from here on it ends by itself, unless something else holds it. */
export function letGo(): void {
  process.off("disconnect", exit);
  process.disconnect();
}

function exit(): never {
  process.exit();
}
