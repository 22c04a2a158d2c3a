import type { Reading } from "./clock.ts";

/**
 * The store's clock, for the engines that have no server clock (SQLite and memory). It follows elapsed time, not the
 * calendar: stepping the calendar an hour forward expires nothing, and stepping it back leaves nothing stuck.
 */
export interface EngineTime {
  /** Milliseconds since 1970 by this store's clock. Due times and times-to-live are measured in it. */
  now: number;
  /** Advances only while the machine is awake. Leases are measured in it. */
  awake: number;
  boot: string;
  /** The reading that `now` and `awake` belong to. */
  elapsedAt: number;
  awakeAt: number;
}

export function startTime(reading: Reading): EngineTime {
  return {
    now: Math.floor(reading.wall),
    awake: 0,
    boot: reading.boot,
    elapsedAt: Math.floor(reading.elapsed),
    awakeAt: Math.floor(reading.awake),
  };
}

/**
 * Never goes backwards. After a reboot the time that the machine was off is unknown, so the calendar decides. Leases
 * continue from where they were: a claim keeps the time that it had left.
 */
export function advanceTime(time: EngineTime, reading: Reading): EngineTime {
  if (reading.boot !== time.boot) {
    const started = startTime(reading);
    return { ...started, now: Math.max(time.now, started.now), awake: time.awake };
  }
  const elapsedAt = Math.max(time.elapsedAt, Math.floor(reading.elapsed));
  const awakeAt = Math.max(time.awakeAt, Math.floor(reading.awake));
  const elapsed = elapsedAt - time.elapsedAt;
  return {
    now: time.now + elapsed,
    awake: time.awake + Math.min(awakeAt - time.awakeAt, elapsed),
    boot: time.boot,
    elapsedAt,
    awakeAt,
  };
}
