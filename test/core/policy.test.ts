import { describe, expect, test } from "vitest";
import { isDibsError } from "../../src/core/errors/errors.ts";
import {
  DEFAULT_POLICY,
  groupOrder,
  parsePolicy,
  type QueuePolicyOptions,
  mergePolicy,
  resolvePolicy,
} from "../../src/core/queue/policy.ts";
import { rankOf } from "../../src/core/task/task.ts";

describe("policy", () => {
  test("parsing a policy returns only the named fields, in milliseconds", () => {
    expect(parsePolicy({})).toEqual({});
    expect(parsePolicy({ lease: "1m", maxAttempts: 3, ttl: null })).toEqual({
      lease: 60_000,
      maxAttempts: 3,
      ttl: null,
    });
    expect(parsePolicy({ lease: undefined } as unknown as QueuePolicyOptions)).toEqual({});
  });

  test("parsing a policy accepts every field", () => {
    const policy = parsePolicy({
      lease: "5s",
      timeout: "10m",
      maxAttempts: 1,
      backoff: { type: "fixed", delay: "2s", max: "2s", jitter: 0 },
      elsewhere: 0,
      maxDepth: 0,
      maxBytes: 4_096,
      overflow: "drop-oldest",
      expiredTo: "late",
      maxPayload: 1_024,
      retention: { age: "1h", count: 5 },
      ttl: "1d",
      verified: true,
      maxConcurrency: 4,
      rateLimit: { max: 5, per: "1s" },
      groups: { concurrency: 2, fair: true },
      window: "22:00-06:00",
    });
    expect(policy).toEqual({
      lease: 5_000,
      timeout: 600_000,
      maxAttempts: 1,
      backoff: { type: "fixed", delay: 2_000, max: 2_000, jitter: 0 },
      elsewhere: 0,
      maxDepth: 0,
      maxBytes: 4_096,
      overflow: "drop-oldest",
      expiredTo: "late",
      maxPayload: 1_024,
      retention: { age: 3_600_000, count: 5 },
      ttl: 86_400_000,
      verified: true,
      maxConcurrency: 4,
      rateLimit: [{ max: 5, per: 1_000, pace: false, unit: null }],
      groups: { concurrency: 2, fair: true },
      window: { hours: "22:00-06:00", tz: "UTC" },
    });
    expect(Object.keys(policy).sort()).toEqual(Object.keys(DEFAULT_POLICY).sort());
  });

  test("a partial backoff or retention gets the other defaults", () => {
    expect(parsePolicy({ backoff: { delay: "2s" } }).backoff).toEqual({
      ...DEFAULT_POLICY.backoff,
      delay: 2_000,
    });
    expect(parsePolicy({ retention: { count: 7 } }).retention).toEqual({
      ...DEFAULT_POLICY.retention,
      count: 7,
    });
    expect(parsePolicy({ backoff: {} }).backoff).toEqual(DEFAULT_POLICY.backoff);
  });

  test("parsing groups returns only the named fields, and null resets a field", () => {
    expect(parsePolicy({ groups: { fair: true } }).groups).toEqual({ fair: true });
    const lifted = { concurrency: null, rateLimit: null, fair: null, weight: null, sticky: null };
    expect(parsePolicy({ groups: lifted }).groups).toEqual(DEFAULT_POLICY.groups);
    expect(parsePolicy({ groups: null }).groups).toEqual(DEFAULT_POLICY.groups);
    expect(resolvePolicy({ groups: { fair: true } }).groups).toEqual({
      ...DEFAULT_POLICY.groups,
      fair: true,
    });
  });

  test("merging policies overrides field by field", () => {
    const before = { lease: 1_000, maxAttempts: 2, groups: { concurrency: 3, fair: true } };
    expect(mergePolicy(before, { lease: 2_000 })).toEqual({ ...before, lease: 2_000 });
    expect(mergePolicy(before, { groups: { fair: false } })).toEqual({
      ...before,
      groups: { concurrency: 3, fair: false },
    });
    expect(mergePolicy({}, { groups: { fair: true } })).toEqual({ groups: { fair: true } });
  });

  test("a long backoff delay raises the default maximum", () => {
    expect(parsePolicy({ backoff: { delay: "1h" } }).backoff).toMatchObject({
      delay: 3_600_000,
      max: 3_600_000,
    });
  });

  test("an empty policy resolves to the defaults", () => {
    expect(resolvePolicy({})).toEqual(DEFAULT_POLICY);
    expect(resolvePolicy({ lease: 7_000 })).toEqual({ ...DEFAULT_POLICY, lease: 7_000 });
  });

  test("the defaults are those in the documentation", () => {
    expect(DEFAULT_POLICY).toMatchObject({
      lease: 30_000,
      timeout: 3_600_000,
      maxAttempts: 5,
      elsewhere: 5_000,
    });
    expect(DEFAULT_POLICY.backoff).toEqual({ type: "exponential", delay: 1_000, max: 600_000, jitter: 0.2 });
  });
});

test("tasks of a group are in order of position, and urgent ones first unless the group runs in order", () => {
  const [plain, urgent] = [rankOf({}), rankOf({ urgent: true })];
  const tasks = [
    { rank: plain, pos: 3 },
    { rank: urgent, pos: 4 },
    { rank: plain, pos: 1 },
    { rank: urgent, pos: 2 },
  ];
  const sorted = (concurrency: number): number[] =>
    tasks.toSorted(groupOrder(resolvePolicy({ groups: { concurrency } }))).map(({ pos }) => pos);
  expect(sorted(1)).toEqual([1, 2, 3, 4]);
  expect(sorted(2)).toEqual([2, 4, 1, 3]);
});

describe("a policy is refused for", () => {
  test.each([
    ["a misspelt field", { leese: "1s" }, 'Unknown queue policy option "leese". Known: lease, timeout'],
    ["a field misspelt inside", { backoff: { delya: 1 } }, 'Unknown backoff option "delya"'],
    ["the same in retention", { retention: { days: 1 } }, 'Unknown retention option "days"'],
    ["a lease too short to keep", { lease: "50ms" }, "lease must be between 100 ms"],
    ["no timeout at all", { timeout: 0 }, "timeout must be between 1 ms"],
    ["no attempts", { maxAttempts: 0 }, "maxAttempts must be a whole number from 1 to 1000; got 0"],
    ["half an attempt", { maxAttempts: 1.5 }, "maxAttempts must be a whole number"],
    ["attempts as text", { maxAttempts: "5" }, 'got "5"'],
    [
      "an unknown backoff",
      { backoff: { type: "linear" } },
      'backoff.type must be "fixed" or "exponential"; got "linear"',
    ],
    [
      "a ceiling below the delay",
      { backoff: { delay: "10s", max: "1s" } },
      "backoff.max (1000 ms) must not be below backoff.delay (10000 ms)",
    ],
    [
      "jitter above one",
      { backoff: { jitter: 1.1 } },
      "backoff.jitter must be a number from 0 to 1; got 1.1",
    ],
    ["jitter that is no number", { backoff: { jitter: Number.NaN } }, "got NaN"],
    ["a negative depth", { maxDepth: -1 }, "maxDepth must be a whole number from 0"],
    ["a huge payload", { maxPayload: 2 ** 31 }, "maxPayload must be a whole number from 0 to 67108864"],
    ["an empty life", { ttl: 0 }, "ttl must be between 1 ms"],
    ["a duration without its unit", { elsewhere: "5" }, "elsewhere must be a duration such as"],
    ["a list", [], "The policy must be an object; got an array of 0"],
    ["null", null, "The policy must be an object; got null"],
    ["a backoff that is a number", { backoff: 5 }, "backoff must be an object; got 5"],
    ["a retention that is null", { retention: null }, "retention must be an object; got null"],
    [
      "no concurrency",
      { maxConcurrency: 0 },
      "got 0. Null is no limit; to start none for a while, pause the",
    ],
    [
      "a rate in words",
      { rateLimit: "10/min" },
      'such as { max: 60, per: "1m" }, or null for none; got "10/min"',
    ],
    [
      "one of several rates",
      {
        rateLimit: [
          { max: 1, per: "1s" },
          { max: 0.5, per: "1s" },
        ],
      },
      "rateLimit[1].max must be a whole number from 1 to 1000000000000; got 0.5. For fewer than one, make `per` longer",
    ],
    [
      "two rates that differ only in max",
      {
        rateLimit: [
          { max: 1, per: "1m" },
          { max: 9, per: "1m", unit: "tokens" },
          { max: 2, per: 60_000 },
        ],
      },
      "rateLimit[0] and rateLimit[2] count the same in the same spans of 60000 ms: the lower `max` decides",
    ],
    [
      "a span of an unknown unit",
      { rateLimit: { max: 1, per: "1min" } },
      "rateLimit.per must be a duration such as",
    ],
    [
      "a span that is too long",
      { rateLimit: { max: 1, per: "60d" } },
      'rateLimit.per must be between 1 ms and 31 days; got "60d"',
    ],
    [
      "nine rates",
      { rateLimit: Array.from({ length: 9 }, (_, i) => ({ max: 1, per: i + 1 })) },
      "up to 8 limits that all apply; got 9",
    ],
    [
      "a weight of zero",
      { groups: { weight: { a: 0 } } },
      'groups.weight of "a" must be a whole number from 1 to 100; got 0',
    ],
    [
      "weights without a groupKey",
      { groups: { weight: 3 } },
      'groups.weight has turns by groupKey, such as { "customer-1": 3 }',
    ],
    ["invalid hours", { window: "25:00-3" }, 'one span of hours such as "22:00-06:00" (UTC), or { hours'],
    ["the whole day", { window: "00:00-24:00" }, "For the whole day leave it out, or give null"],
    [
      "an unknown time zone",
      { window: { hours: "09:00-17:00", tz: "Mars/X" } },
      'window.tz must be the name of a time zone, such as "Europe/London" or "UTC"; got "Mars/X"',
    ],
    ["weights without fair", { groups: { weight: { a: 2 } } }, "Give fair: true with it; got undefined"],
    [
      "weights above the concurrency",
      { groups: { fair: true, concurrency: 2, weight: { a: 3 } } },
      "Give a groups.concurrency of at least 3 with it, or lower weights; got 2",
    ],
    [
      "weights together with a rate",
      { groups: { fair: true, concurrency: 2, weight: { a: 2 }, rateLimit: { max: 1, per: "1s" } } },
      "one task in line at a time, whatever it weighs",
    ],
  ])("a policy is refused for %s", (_, options, message) => {
    let error: unknown;
    try {
      parsePolicy(options as QueuePolicyOptions);
    } catch (thrown) {
      error = thrown;
    }
    expect(isDibsError(error) && error.code).toBe("INVALID");
    expect((error as Error).message).toContain(message);
  });
});
