import type { TaskError } from "../task/task.ts";

/** The errors that the ledger gets for attempts that the worker did not settle itself. The engines write them. */

export function lostError(worker: string): TaskError {
  return {
    name: "LeaseLost",
    message: `Worker "${worker}" sent no heartbeat for a whole lease: it crashed, hung or was cut off.`,
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
