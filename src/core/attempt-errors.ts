import type { TaskError } from "./task.ts";

/** What the ledger says of attempts that did not end by a word of their worker. */

export function lostError(worker: string): TaskError {
  return {
    name: "LeaseLost",
    message: `Worker "${worker}" gave no sign of life for a whole lease: it crashed, hung or was cut off.`,
    stack: null,
  };
}

export function timeoutError(): TaskError {
  return {
    name: "TimeoutError",
    message: "The attempt took longer than the queue's timeout allows.",
    stack: null,
  };
}
