import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Reading } from "../../src/core/time/clock.ts";
import { advanceTime, startTime } from "../../src/core/time/engine-time.ts";

const HOUR = 3_600_000;
const NOON = Date.UTC(2026, 0, 15, 12);
const start: Reading = { boot: "first", wall: NOON, elapsed: 10 * HOUR, awake: 4 * HOUR };

function after(change: Partial<Reading>): Reading {
  return { ...start, ...change };
}

describe("engine time", () => {
  test("the engine's clock starts at the calendar's time", () => {
    expect(startTime(start)).toMatchObject({ now: NOON, awake: 0 });
  });

  test("the engine's clock follows elapsed time", () => {
    const time = advanceTime(
      startTime(start),
      after({ elapsed: 11 * HOUR, awake: 5 * HOUR, wall: NOON + HOUR }),
    );
    expect(time).toMatchObject({ now: NOON + HOUR, awake: HOUR });
  });

  test("sleep counts for due times, not for leases", () => {
    const time = advanceTime(
      startTime(start),
      after({ elapsed: 18 * HOUR, awake: 4 * HOUR + 5, wall: NOON + 8 * HOUR }),
    );
    expect(time).toMatchObject({ now: NOON + 8 * HOUR, awake: 5 });
  });

  test.each([-HOUR, HOUR, 10_000 * HOUR])("the engine's clock ignores a calendar step of %d ms", (step) => {
    const time = advanceTime(
      startTime(start),
      after({ elapsed: 10 * HOUR + 20, awake: 4 * HOUR + 20, wall: NOON + 20 + step }),
    );
    expect(time).toMatchObject({ now: NOON + 20, awake: 20 });
  });

  test("after a reboot the calendar decides, and leases continue from where they were", () => {
    const before = advanceTime(startTime(start), after({ elapsed: 10 * HOUR + 700, awake: 4 * HOUR + 700 }));
    const time = advanceTime(before, {
      boot: "second",
      wall: NOON + 3 * HOUR,
      elapsed: 40_000,
      awake: 40_000,
    });
    expect(time).toMatchObject({ now: NOON + 3 * HOUR, awake: 700, boot: "second" });
    const later = advanceTime(time, { boot: "second", wall: 0, elapsed: 41_000, awake: 41_000 });
    expect(later).toMatchObject({ now: NOON + 3 * HOUR + 1_000, awake: 1_700 });
  });

  test("after a reboot with an older calendar the engine's clock stays where it was", () => {
    const time = advanceTime(startTime(start), {
      boot: "second",
      wall: NOON - 9 * HOUR,
      elapsed: 5,
      awake: 5,
    });
    expect(time).toMatchObject({ now: NOON, awake: 0 });
  });

  test("a late reading does not move the engine's clock back", () => {
    const ahead = advanceTime(startTime(start), after({ elapsed: 10 * HOUR + 100, awake: 4 * HOUR + 100 }));
    const time = advanceTime(ahead, after({ elapsed: 10 * HOUR + 60, awake: 4 * HOUR + 60 }));
    expect(time).toEqual(ahead);
  });

  test("rounding loses no fraction of a millisecond", () => {
    let time = startTime(after({ elapsed: 0.4, awake: 0.4 }));
    for (let i = 1; i <= 1_000; i++)
      time = advanceTime(time, after({ elapsed: 0.4 + i * 0.3, awake: 0.4 + i * 0.3 }));
    expect(time).toMatchObject({ now: NOON + 300, awake: 300 });
  });
});

const reading = fc.record({
  boot: fc.constantFrom("a", "a", "a", "b", "c"),
  wall: fc.double({ min: 0, max: 4e12, noNaN: true }),
  elapsed: fc.double({ min: 0, max: 1e10, noNaN: true }),
  awake: fc.double({ min: 0, max: 1e10, noNaN: true }),
});

test("with any readings, engine time never goes back, awake time never overtakes it, and both are whole milliseconds", () => {
  fc.assert(
    fc.property(fc.array(reading, { minLength: 2, maxLength: 20 }), ([first, ...rest]) => {
      let time = startTime(first!);
      for (const next of rest) {
        const later = advanceTime(time, next);
        expect(later.now).toBeGreaterThanOrEqual(time.now);
        expect(later.awake).toBeGreaterThanOrEqual(time.awake);
        if (next.boot === time.boot)
          expect(later.awake - time.awake).toBeLessThanOrEqual(later.now - time.now);
        expect(Number.isInteger(later.now) && Number.isInteger(later.awake)).toBe(true);
        time = later;
      }
    }),
  );
});

test("many readings give the same time as only the last one", () => {
  const steps = fc.array(fc.record({ slept: fc.nat(10_000), awake: fc.nat(10_000) }), {
    minLength: 1,
    maxLength: 20,
  });
  fc.assert(
    fc.property(steps, (all) => {
      let time = startTime(start);
      let last = start;
      for (const { slept, awake } of all) {
        last = after({ elapsed: last.elapsed + slept + awake, awake: last.awake + awake });
        time = advanceTime(time, last);
      }
      expect(time).toEqual(advanceTime(startTime(start), last));
    }),
  );
});
