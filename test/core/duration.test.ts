import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LONGEST_MS, parseDuration } from "../../src/core/time/duration.ts";
import { isDibsError } from "../../src/core/errors/errors.ts";

test.each([
  ["250ms", 250],
  ["30s", 30_000],
  ["5m", 300_000],
  ["2h", 7_200_000],
  ["1d", 86_400_000],
  ["1.5s", 1_500],
  ["0s", 0],
  [250, 250],
  [0, 0],
  ["3650d", LONGEST_MS],
])("%s is %d ms", (text, ms) => {
  expect(parseDuration(text, "lease")).toBe(ms);
});

test("a fraction of a millisecond is rounded up: no duration is shorter than requested", () => {
  expect(parseDuration("0.5ms", "lease")).toBe(1);
  expect(parseDuration(0.2, "lease")).toBe(1);
  expect(parseDuration("0.0001s", "lease", 0)).toBe(1);
});

test("decimal fractions are exact", () => {
  expect(parseDuration("1.1s", "lease")).toBe(1_100);
  expect(parseDuration("2.007s", "lease")).toBe(2_007);
  expect(parseDuration("0.017h", "lease")).toBe(61_200);
  fc.assert(
    fc.property(fc.nat(9_999_999), (ms) => {
      expect(parseDuration(`${ms / 1_000}s`, "ttl")).toBe(ms);
    }),
  );
});

describe("a bad duration is refused with advice", () => {
  test.each([
    ["30", 'lease must be a duration such as "250ms"'],
    ["30 s", 'got "30 s"'],
    ["-5s", 'got "-5s"'],
    ["1w", 'got "1w"'],
    ["1e3ms", 'got "1e3ms"'],
    ["", 'got ""'],
    ["5S", 'got "5S"'],
    [null, "got null"],
    [undefined, "got undefined"],
    [Number.NaN, "got NaN"],
    [Number.POSITIVE_INFINITY, "got Infinity"],
    [-1, "lease must be between 0 ms and 3650 days; got -1"],
    ["3651d", "between 0 ms and 3650 days"],
    [{}, "got an object"],
    [5n, "got 5n"],
  ])("the duration %o is refused", (value, message) => {
    const error = caught(() => parseDuration(value, "lease"));
    expect(isDibsError(error) && error.code).toBe("INVALID");
    expect((error as Error).message).toContain(message);
  });

  test("a duration below the minimum is refused", () => {
    expect(() => parseDuration("99ms", "lease", 100)).toThrow("lease must be between 100 ms and 3650 days");
    expect(parseDuration("100ms", "lease", 100)).toBe(100);
  });
});

test("every whole number of a unit means the same as its milliseconds", () => {
  const units = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
  fc.assert(
    fc.property(fc.constantFrom(...Object.entries(units)), fc.nat(3_650), ([unit, ms], count) => {
      expect(parseDuration(`${count}${unit}`, "ttl")).toBe(count * ms);
    }),
  );
});

test("any input is either parsed to whole milliseconds within bounds, or refused with INVALID", () => {
  const anything = fc.oneof(
    fc.anything(),
    fc.double(),
    fc.string({ unit: fc.constantFrom(...Array.from("0123456789.smhd-")) }),
  );
  fc.assert(
    fc.property(anything, (value) => {
      try {
        const ms = parseDuration(value, "ttl");
        expect(Number.isInteger(ms) && ms >= 0 && ms <= LONGEST_MS).toBe(true);
      } catch (error) {
        expect(isDibsError(error) && error.code).toBe("INVALID");
      }
    }),
    { numRuns: 500 },
  );
});

function caught(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}
