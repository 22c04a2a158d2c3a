import { describe, expect, test } from "vitest";
import {
  correct,
  isOver,
  NO_METER,
  earliestStart,
  parseRateLimits,
  type RateLimit,
  roomFor,
  spend,
} from "../../src/core/queue/rate.ts";

const limit = (max: number, per: number, more: Partial<RateLimit> = {}): RateLimit => ({
  max,
  per,
  pace: false,
  unit: null,
  ...more,
});

/** Starts as many tasks as possible at each of the times, and returns how many started. */
function starts(limits: RateLimit[], moments: number[], cost = 1): number[] {
  let meter = NO_METER;
  return moments.map((now) => {
    let count = 0;
    while (count < 1_000 && earliestStart(limits, meter, cost, now) <= now) {
      meter = spend(limits, meter, cost, now);
      count++;
    }
    return count;
  });
}

describe("rate limits", () => {
  test("windows begin at multiples of the span", () => {
    expect(starts([limit(3, 100)], [50, 99, 100, 199, 200])).toEqual([3, 0, 3, 0, 3]);
  });

  test("earliestStart says when the next task may start", () => {
    const limits = [limit(1, 100)];
    expect(earliestStart(limits, spend(limits, NO_METER, 1, 130), 1, 150)).toBe(200);
  });

  test("of several limits, the one with the latest start decides", () => {
    expect(starts([limit(2, 10), limit(3, 100)], [0, 10, 20, 100])).toEqual([2, 1, 0, 2]);
  });

  test("a paced limit starts one task per share of the span", () => {
    expect(starts([limit(4, 100, { pace: true })], [0, 24, 25, 60, 74, 85, 500])).toEqual([
      1, 0, 1, 1, 0, 1, 1,
    ]);
  });

  test("a paced limit makes up for a slightly late start, but not for more", () => {
    const limits = [limit(10, 1_000, { pace: true })];
    expect(starts(limits, [0, 120, 200, 340, 400, 451, 550, 551])).toEqual([1, 1, 1, 1, 1, 0, 1, 0]);
    expect(starts(limits, [0, 160, 200, 259, 260])).toEqual([1, 1, 0, 0, 1]);
  });

  test("a paced limit reaches its rate with many starts and with shares that do not divide the span", () => {
    const times = (every: number): number[] => Array.from({ length: 1_001 }, (_, i) => i * every);
    const sum = (counts: number[]): number => counts.reduce((all, count) => all + count, 0);
    expect(sum(starts([limit(3, 100, { pace: true })], times(1)))).toBeGreaterThanOrEqual(30);
    expect(sum(starts([limit(2_000, 1_000, { pace: true })], times(7)))).toBeGreaterThanOrEqual(14_000);
  });

  test("roomFor counts how many may start now", () => {
    for (const limits of [[limit(4, 100)], [limit(200, 1_000, { pace: true })]]) {
      for (let late = 0; late < 80; late++) {
        let meter = spend(limits, NO_METER, 1, 1_000);
        const now = 1_005 + late;
        const room = roomFor(limits, meter, now);
        let count = 0;
        for (; earliestStart(limits, meter, 1, now) <= now; count++) meter = spend(limits, meter, 1, now);
        expect(count).toBe(room);
      }
    }
  });

  test("roomFor leaves limits that count costs to earliestStart", () => {
    const limits = [limit(10, 100, { unit: "tokens" })];
    expect(roomFor(limits, spend(limits, NO_METER, 10, 0), 50)).toBe(Number.POSITIVE_INFINITY);
  });

  test("a limit keeps its tally when its position in the list changes", () => {
    const [tokens, pace, span] = [limit(9, 100, { unit: "t" }), limit(9, 100, { pace: true }), limit(9, 100)];
    const meter = spend([tokens, pace, span], NO_METER, 5, 20);
    for (const one of [tokens, pace, span]) {
      const alone = spend([one], NO_METER, 5, 20);
      for (const now of [20, 40, 110])
        expect(earliestStart([one], meter, 5, now)).toBe(earliestStart([one], alone, 5, now));
    }
    expect(earliestStart([limit(1, 100), tokens], meter, 1, 20)).toBe(100);
    expect(earliestStart([limit(1, 50)], meter, 1, 20)).toBe(20);
  });

  test("of two limits that differ only in max, the lower one applies", () => {
    const twice = [
      limit(9, 100, { pace: true }),
      limit(2, 100, { pace: true }),
      limit(4, 100),
      limit(3, 100),
    ];
    expect(starts(twice, [0, 49, 50, 100])).toEqual([1, 0, 1, 1]);
    expect(starts([limit(4, 100), limit(3, 100)], [0, 100])).toEqual([3, 3]);
  });

  test("isOver is true once all spans of a meter have ended", () => {
    const limits = [limit(3, 100), limit(3, 100, { pace: true })];
    const meter = spend(limits, NO_METER, 1, 1_020);
    expect([1_021, 1_099, 1_100, 1_103, 1_104].map((now) => isOver(meter, now))).toEqual([
      false,
      false,
      false,
      false,
      true,
    ]);
  });

  test("a limit with a unit counts costs", () => {
    expect(starts([limit(10, 100, { unit: "tokens" })], [0, 100], 4)).toEqual([2, 2]);
    expect(starts([limit(10, 100, { unit: "tokens" })], [0, 100], 50)).toEqual([1, 1]);
  });

  test("a paced limit with a unit follows each start with its share of the cost", () => {
    expect(starts([limit(100, 1_000, { unit: "tokens", pace: true })], [0, 199, 200, 399, 400], 20)).toEqual([
      1, 0, 1, 0, 1,
    ]);
  });

  test("no window ever has more than max starts, at random times", () => {
    let state = 11;
    const below = (most: number): number => (state = (state * 48_271) % 2_147_483_647) % most;
    for (let round = 0; round < 200; round++) {
      const [max, per] = [1 + below(5), 1 + below(50)];
      const moments = Array.from({ length: 60 }, () => below(400)).toSorted((a, b) => a - b);
      const counts = starts([limit(max, per)], moments);
      const byWindow = new Map<number, number>();
      for (const [i, now] of moments.entries()) {
        const window = Math.floor(now / per);
        byWindow.set(window, (byWindow.get(window) ?? 0) + counts[i]!);
      }
      for (const count of byWindow.values()) expect(count).toBe(max);
    }
  });
});

describe("corrections of a rate limit", () => {
  const limits = [limit(100, 1_000, { unit: "tokens" })];
  const meter = spend(limits, NO_METER, 60, 500);

  test("a correction gives back what was not spent, while the window lasts", () => {
    expect(Object.values(correct(limits, meter, { cost: 60, spent: 10, startedAt: 500 }, 900))).toEqual([
      [0, 10],
    ]);
    expect(Object.values(correct(limits, meter, { cost: 60, spent: 10, startedAt: 500 }, 1_100))).toEqual([
      [1_000, 0],
    ]);
  });

  test("a correction charges what was spent in excess to the current window", () => {
    expect(Object.values(correct(limits, meter, { cost: 60, spent: 90, startedAt: 500 }, 900))).toEqual([
      [0, 90],
    ]);
    expect(Object.values(correct(limits, meter, { cost: 60, spent: 90, startedAt: 500 }, 1_100))).toEqual([
      [1_000, 30],
    ]);
  });

  test("a correction of a paced limit gives back only the reserved time that lies ahead", () => {
    const paced = [limit(10, 5_000, { unit: "tokens", pace: true })];
    const after = spend(paced, NO_METER, 2, 1_000);
    expect(Object.values(after)).toEqual([[2_000, 0]]);
    const spentNothing = { cost: 2, spent: 0, startedAt: 1_000 };
    expect(Object.values(correct(paced, after, spentNothing, 1_400))).toEqual([[1_400, 0]]);
    expect(Object.values(correct(paced, after, spentNothing, 3_600))).toEqual([[2_000, 0]]);
    expect(Object.values(correct(paced, after, { ...spentNothing, spent: 1 }, 1_100))).toEqual([[1_500, 0]]);
    expect(Object.values(correct(paced, after, { ...spentNothing, spent: 4 }, 1_100))).toEqual([[3_000, 0]]);
  });

  test("a correction does not change a limit that counts starts", () => {
    const starts = [limit(3, 1_000)];
    const one = spend(starts, NO_METER, 60, 500);
    expect(correct(starts, one, { cost: 60, spent: 0, startedAt: 500 }, 900)).toEqual(one);
  });
});

describe("parsing rate limits", () => {
  test("rateLimit accepts one limit, several, or none", () => {
    expect(parseRateLimits({ max: 3, per: "1m" }, "rateLimit")).toEqual([limit(3, 60_000)]);
    expect(
      parseRateLimits(
        [
          { max: 3, per: "1m" },
          { max: 9, per: 5, unit: "tokens", pace: true },
        ],
        "rateLimit",
      ),
    ).toEqual([limit(3, 60_000), limit(9, 5, { unit: "tokens", pace: true })]);
    expect(parseRateLimits(null, "rateLimit")).toEqual([]);
  });

  test.each([
    [{ max: 0, per: "1m" }, "rateLimit.max"],
    [{ max: 1.5, per: "1m" }, "rateLimit.max"],
    [{ max: 1, per: 0 }, "rateLimit.per"],
    [{ max: 1, per: "400d" }, "rateLimit.per"],
    [{ max: 1, per: "soon" }, "rateLimit.per"],
    [{ max: 1, per: "1m", unit: "" }, "rateLimit.unit"],
    [{ max: 1, per: "1m", each: 3 }, "each"],
    ["60/m", "rateLimit"],
  ])("the rate limit %j is refused", (options, word) => {
    expect(() => parseRateLimits(options as never, "rateLimit")).toThrow(word);
  });
});
