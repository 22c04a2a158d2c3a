/** Waits without an event loop, for the threads that wait for locks or watch the file. */

const cell = new Int32Array(new SharedArrayBuffer(4));

/** Blocks the thread, for less than the shortest timer if needed. */
export function nap(ms: number): void {
  Atomics.wait(cell, 0, 0, ms);
}
