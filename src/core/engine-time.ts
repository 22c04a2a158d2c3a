import type { Reading } from "./clock.ts";

/**
 * The engine's clock, kept in the store. It follows the time that passed, not the calendar: stepping the
 * calendar an hour forward expires nothing, stepping it back leaves nothing stuck.
 */
export interface EngineTime {
  /** Milliseconds since 1970, as far as this store knows. Due times and time-to-live are measured in it. */
  now: number;
  /** Counts only while the machine is awake and this store's clock runs. Leases are measured in it. */
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
 * Never runs backwards. After a reboot nobody knows how long the machine was off, so the calendar is asked,
 * and leases go on from where they were: what is held gets back the time it had left.
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
