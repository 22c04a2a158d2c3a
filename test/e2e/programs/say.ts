import { writeSync } from "node:fs";

/**
 * One line to the test. Written before this returns, so that neither SIGKILL nor a blocked event loop can swallow it.
 * (process.stdout would be asynchronous, and must not be touched: it makes the pipe non-blocking.)
 */
export function say(said: string, details: object = {}): void {
  const line = Buffer.from(`${JSON.stringify({ said, ...details })}\n`);
  for (let written = 0; written < line.length;) written += writeOrWait(line, written);
}

/** The test may read more slowly than this process writes: then the pipe is full for a moment. */
function writeOrWait(line: Buffer, from: number): number {
  try {
    return writeSync(1, line, from);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    return 0;
  }
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
