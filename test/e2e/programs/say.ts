import { writeSync } from "node:fs";

/**
 * One line to the test. Written before this returns, so that neither SIGKILL nor a blocked event loop can
 * swallow it. (process.stdout would be asynchronous, and must not be touched: it makes the pipe non-blocking.)
 */
export function say(said: string, details: object = {}): void {
  writeSync(1, `${JSON.stringify({ said, ...details })}\n`);
}

export function readOptions(): unknown {
  // Nobody is left to listen or to clean up: the test is gone.
  process.once("disconnect", exit);
  return JSON.parse(process.argv[2]!);
}

/** The test is no reason to stay any longer: from here on the process ends by itself, or something holds it. */
export function letGo(): void {
  process.off("disconnect", exit);
  process.disconnect();
}

function exit(): never {
  process.exit();
}
