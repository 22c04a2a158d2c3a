import { constants } from "node:os";
import { say } from "./output.ts";

/**
 * Ctrl-C for commands that run for long: the first one asks the command to finish what it has begun, the second one
 * ends the process. SIGTERM and SIGHUP do the same. Call it before anything that takes time, such as opening the store:
 * until then, the first signal ends the process.
 */
export interface Interrupt {
  /** Aborts at the first signal. */
  readonly signal: AbortSignal;
  /** What the second signal does, with the exit code for it. Ends the process at once unless it is replaced. */
  endNow: (exitCode: number) => void;
  /** From here on, a signal ends the process as usual. */
  end(): void;
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** `finishing`: the text that is printed after the first Ctrl-C, such as "Finishing the batch". */
export function onInterrupt(finishing?: string): Interrupt {
  const stop = new AbortController();
  const interrupt: Interrupt = {
    signal: stop.signal,
    endNow: (exitCode) => process.exit(exitCode),
    end() {
      for (const signal of SIGNALS) process.off(signal, onSignal);
    },
  };
  const onSignal = (signal: (typeof SIGNALS)[number]): void => {
    if (stop.signal.aborted) return interrupt.endNow(128 + constants.signals[signal]);
    if (finishing !== undefined && process.stderr.isTTY)
      say(`${finishing}. Press Ctrl-C again to end at once.`);
    stop.abort();
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return interrupt;
}

/** Resolves when the signal aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
