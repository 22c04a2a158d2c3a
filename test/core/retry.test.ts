import * as fc from "fast-check";
import { expect, test } from "vitest";
import { type Backoff, DEFAULT_POLICY } from "../../src/core/queue/policy.ts";
import { backoffDelay, isExhausted } from "../../src/core/task/retry.ts";

const plain: Backoff = { type: "exponential", delay: 1_000, max: 600_000, jitter: 0 };
const middle = () => 0.5;

test("the backoff doubles with every failure, up to its maximum", () => {
  const delays = [1, 2, 3, 4, 9, 10, 11, 12, 1_000].map((failures) => backoffDelay(plain, failures, middle));
  expect(delays).toEqual([1_000, 2_000, 4_000, 8_000, 256_000, 512_000, 600_000, 600_000, 600_000]);
});

test("a fixed backoff stays the same", () => {
  const fixed: Backoff = { ...plain, type: "fixed", delay: 250 };
  expect([1, 2, 50].map((failures) => backoffDelay(fixed, failures, middle))).toEqual([250, 250, 250]);
});

test("jitter spreads the backoff evenly to both sides", () => {
  const spread = { ...plain, jitter: 0.2 };
  expect(backoffDelay(spread, 1, () => 0)).toBe(800);
  expect(backoffDelay(spread, 1, middle)).toBe(1_000);
  expect(backoffDelay(spread, 1, () => 0.999_999)).toBe(1_200);
});

const backoff = fc.record({
  type: fc.constantFrom("fixed", "exponential"),
  delay: fc.nat(3_600_000),
  max: fc.integer({ min: 3_600_000, max: 315_360_000_000 }),
  jitter: fc.double({ min: 0, max: 1, noNaN: true }),
}) as fc.Arbitrary<Backoff>;
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

test("the backoff is a whole number of milliseconds within its bounds, for any number of failures", () => {
  fc.assert(
    fc.property(backoff, fc.integer({ min: 0, max: 100_000 }), random, (policy, failures, draw) => {
      const delay = backoffDelay(policy, failures, () => draw);
      expect(Number.isSafeInteger(delay)).toBe(true);
      expect(delay).toBeGreaterThanOrEqual(Math.floor(policy.delay * (1 - policy.jitter)));
      expect(delay).toBeLessThanOrEqual(Math.ceil(policy.max * (1 + policy.jitter)));
    }),
  );
});

test("the backoff never shrinks from one failure to the next", () => {
  fc.assert(
    fc.property(backoff, fc.integer({ min: 1, max: 2_000 }), random, (policy, failures, draw) => {
      const delays = [failures, failures + 1].map((count) => backoffDelay(policy, count, () => draw));
      expect(delays[1]).toBeGreaterThanOrEqual(delays[0]!);
    }),
  );
});

test("a task is dead exactly at its last attempt", () => {
  expect([0, 1, 4, 5, 6].map((failures) => isExhausted(failures, DEFAULT_POLICY.maxAttempts))).toEqual([
    false,
    false,
    false,
    true,
    true,
  ]);
  expect(isExhausted(1, 1)).toBe(true);
});
