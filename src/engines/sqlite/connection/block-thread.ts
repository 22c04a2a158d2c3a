const cell = new Int32Array(new SharedArrayBuffer(4));

/** Blocks the thread, for less than a timer could be set to if need be. */
export function nap(ms: number): void {
  Atomics.wait(cell, 0, 0, ms);
}
