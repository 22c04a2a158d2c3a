import { readFileSync } from "node:fs";
import { uptime } from "node:os";
import { type Clock, type Reading, startTimer } from "../core/clock.ts";

/**
 * The machine's own clock.
 *
 * On Linux `process.hrtime` is CLOCK_MONOTONIC: the same count in every process, standing still while the
 * machine sleeps. `os.uptime` goes on through sleep but comes in steps of 10 ms, so it is used for one thing
 * only: how much of the time since boot was slept. Elsewhere the two cannot be told apart and the machine has
 * no name for its boot; there the calendar stands in, and sleep counts against leases.
 */
const boot = readBoot();

/** A sleep is looked for this often: reading the uptime costs some ten microseconds. */
const LOOK_EVERY_MS = 100;
/** Below this, a difference between the two clocks is rounding, not sleep. */
const SHORTEST_SLEEP_MS = 500;

let asleep = 0;
let lookedAt = Number.NEGATIVE_INFINITY;

export const systemClock: Clock = { read, after: startTimer };

function read(): Reading {
  const wall = Date.now();
  if (boot === undefined) return { boot: "calendar", wall, elapsed: wall, awake: wall };
  const awake = monotonic();
  if (awake - lookedAt >= LOOK_EVERY_MS || awake < lookedAt) {
    lookedAt = awake;
    const difference = uptime() * 1_000 - awake;
    if (Math.abs(difference - asleep) >= SHORTEST_SLEEP_MS) asleep = difference;
  }
  const elapsed = awake + asleep;
  return { boot, wall, elapsed, awake: Math.min(awake, elapsed) };
}

function monotonic(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1_000 + nanoseconds / 1e6;
}

function readBoot(): string | undefined {
  if (process.platform !== "linux") return undefined;
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return undefined;
  }
}
