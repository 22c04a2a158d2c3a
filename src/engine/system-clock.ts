import { readFileSync } from "node:fs";
import { uptime } from "node:os";
import { type Clock, type Reading, startTimer } from "../core/time/clock.ts";

/**
 * The machine's own clock, for every engine and worker.
 *
 * On Linux, `process.hrtime` is CLOCK_MONOTONIC: it is the same in every process, and stops while the machine sleeps.
 * `os.uptime` continues during sleep but has steps of 10 ms, so it is used only to compute how long the machine slept
 * since boot. Other systems have no such pair of clocks and no name for a boot. There the wall clock is used instead,
 * and sleep counts against leases.
 */
const boot = readBoot();

/** How often to check for a sleep: reading the uptime costs some ten microseconds. */
const LOOK_EVERY_MS = 100;
/** A smaller difference between the two clocks is rounding, not sleep. */
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
