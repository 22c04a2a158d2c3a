import type { Reading } from "../../src/core/time/clock.ts";
import type { Random } from "./random.ts";

const HOUR = 3_600_000;

/** The machine that the stores run on: it sleeps, its calendar is stepped, it is rebooted. */
export class Machine {
  #boots = 1;
  #wall = Date.UTC(2026, 0, 15, 12);
  #elapsed: number;
  #awake: number;

  constructor(random: Random) {
    this.#elapsed = random.between(0, 10 * HOUR);
    this.#awake = random.between(0, this.#elapsed);
  }

  read(): Reading {
    return { boot: `boot-${this.#boots}`, wall: this.#wall, elapsed: this.#elapsed, awake: this.#awake };
  }

  advance(ms: number): void {
    this.sleep(ms);
    this.#awake += ms;
  }

  sleep(ms: number): void {
    this.#wall += ms;
    this.#elapsed += ms;
  }

  stepCalendar(ms: number): void {
    this.#wall += ms;
  }

  reboot(offFor: number, random: Random): void {
    this.#boots++;
    this.#wall += offFor;
    this.#elapsed = random.between(0, 60_000);
    this.#awake = random.between(0, this.#elapsed);
  }
}

/** What an engine's clock must show, implemented a second time: core/time/engine-time.ts is under test as well. */
export class ExpectedTime {
  now: number;
  awake = 0;
  #seen: Reading;

  constructor(reading: Reading) {
    this.now = reading.wall;
    this.#seen = reading;
  }

  observe(reading: Reading): void {
    if (reading.boot === this.#seen.boot) {
      this.now += reading.elapsed - this.#seen.elapsed;
      this.awake += reading.awake - this.#seen.awake;
    } else {
      this.now = Math.max(this.now, reading.wall);
    }
    this.#seen = reading;
  }
}

/** How frequent each event between two batches is. In calm times much is done, in rough ones much goes wrong. */
export const WEATHER = {
  calm: { nothing: 20, moment: 60, seconds: 20, minute: 1, days: 1.5, sleep: 1, calendar: 1, reboot: 0.5 },
  rough: { nothing: 15, moment: 35, seconds: 22, minute: 10, days: 2, sleep: 6, calendar: 6, reboot: 3 },
  /** For a server: its calendar is its clock, and it does not sleep. */
  server: { nothing: 15, moment: 45, seconds: 25, minute: 6, days: 2, sleep: 0, calendar: 0, reboot: 0 },
} as const;

/** One event of time; its name is for the trace. Null: no time passes. */
export async function passTime(
  machine: Machine,
  random: Random,
  weather: keyof typeof WEATHER,
  beforeReboot: () => Promise<void>,
): Promise<string | null> {
  const kind = random.weighted(WEATHER[weather]);
  const advance = (ms: number) => {
    machine.advance(ms);
    return `${ms} ms pass`;
  };
  switch (kind) {
    case "nothing":
      return null;
    case "moment":
      return advance(random.between(1, 120));
    case "seconds":
      return advance(random.between(500, 6_000));
    case "minute":
      return advance(random.between(20_000, 90_000));
    case "days":
      // A day to the millisecond is how long an idempotencyKey outlives its task.
      return advance(random.pick([24, 24, random.between(20, 60)]) * HOUR);
    case "sleep": {
      const ms = random.pick([1_000, 40_000, 2 * HOUR]);
      machine.sleep(ms);
      return `the machine sleeps for ${ms} ms`;
    }
    case "calendar": {
      const ms = random.pick([-HOUR, HOUR]);
      machine.stepCalendar(ms);
      return `the calendar is stepped by ${ms} ms`;
    }
    case "reboot": {
      const off = random.pick([0, 5_000, HOUR]);
      await beforeReboot();
      machine.reboot(off, random);
      return `the machine is off for ${off} ms and boots`;
    }
  }
}
