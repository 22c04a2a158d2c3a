import type { Clock } from "../core/time/clock.ts";
import { DibsError } from "../core/errors/errors.ts";
import type { Port } from "../core/port.ts";

/** A store that does not answer a cheap call in this time is not ready. */
const READY_MS = 2_000;

/** For `/readyz`: fails unless the store answers soon. */
export async function checkStore(store: Port, clock: Clock): Promise<void> {
  let stopTimer = (): void => {};
  const late = new Promise<never>((_, reject) => {
    stopTimer = clock.after(READY_MS, () =>
      reject(new DibsError("UNAVAILABLE", "The store does not answer.")),
    );
  });
  try {
    // The queue need not exist: the store answers, and the call is cheap.
    await Promise.race([store.queues({ queue: "readyz" }), late]);
  } finally {
    stopTimer();
  }
}
