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
} from "../../src/core/rate.ts";

const limit = (max: number, per: number, more: Partial<RateLimit> = {}): RateLimit => ({
  max,
  per,
  pace: false,
  unit: null,
  ...more,
});

/** Starts as many as may, at each of the moments; answers how many that were. */
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

describe("a rate limit", () => {
  test("has windows that begin at multiples of the span", () => {
    expect(starts([limit(3, 100)], [50, 99, 100, 199, 200])).toEqual([3, 0, 3, 0, 3]);
  });

  test("says when the next may start", () => {
    const limits = [limit(1, 100)];
    expect(earliestStart(limits, spend(limits, NO_METER, 1, 130), 1, 150)).toBe(200);
  });

  test("of several, the last to open decides", () => {
    expect(starts([limit(2, 10), limit(3, 100)], [0, 10, 20, 100])).toEqual([2, 1, 0, 2]);
  });

  test("that is paced has one start each share of the span", () => {
    expect(starts([limit(4, 100, { pace: true })], [0, 24, 25, 60, 74, 85, 500])).toEqual([
      1, 0, 1, 1, 0, 1, 1,
    ]);
  });

  test("that is paced makes up for a start that came a little late, not for more", () => {
    const limits = [limit(10, 1_000, { pace: true })];
    expect(starts(limits, [0, 120, 200, 340, 400, 451, 550, 551])).toEqual([1, 1, 1, 1, 1, 0, 1, 0]);
    expect(starts(limits, [0, 160, 200, 259, 260])).toEqual([1, 1, 0, 0, 1]);
  });

  test("that is paced has as many starts as it says, where they are many or do not divide the span", () => {
    const times = (every: number): number[] => Array.from({ length: 1_001 }, (_, i) => i * every);
    const sum = (counts: number[]): number => counts.reduce((all, count) => all + count, 0);
    expect(sum(starts([limit(3, 100, { pace: true })], times(1)))).toBeGreaterThanOrEqual(30);
    expect(sum(starts([limit(2_000, 1_000, { pace: true })], times(7)))).toBeGreaterThanOrEqual(14_000);
  });

  test("has room for as many as may start at a moment", () => {
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

  test("keeps its tally wherever it stands in a list", () => {
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

  test("that stands in a list twice is the one that allows less", () => {
    const twice = [
      limit(9, 100, { pace: true }),
      limit(2, 100, { pace: true }),
      limit(4, 100),
      limit(3, 100),
    ];
    expect(starts(twice, [0, 49, 50, 100])).toEqual([1, 0, 1, 1]);
    expect(starts([limit(4, 100), limit(3, 100)], [0, 100])).toEqual([3, 3]);
  });

  test("has been over for a meter whose spans are", () => {
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

  test("counts costs where it has a unit", () => {
    expect(starts([limit(10, 100, { unit: "tokens" })], [0, 100], 4)).toEqual([2, 2]);
    expect(starts([limit(10, 100, { unit: "tokens" })], [0, 100], 50)).toEqual([1, 1]);
  });

  test("of costs that is paced follows each with its share", () => {
    expect(starts([limit(100, 1_000, { unit: "tokens", pace: true })], [0, 199, 200, 399, 400], 20)).toEqual([
      1, 0, 1, 0, 1,
    ]);
  });

  test("never has more than max in a window, at random moments", () => {
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

describe("a correction", () => {
  const limits = [limit(100, 1_000, { unit: "tokens" })];
  const meter = spend(limits, NO_METER, 60, 500);

  test("gives back what was not spent, while the window lasts", () => {
    expect(Object.values(correct(limits, meter, { cost: 60, spent: 10, startedAt: 500 }, 900))).toEqual([
      [0, 10],
    ]);
    expect(Object.values(correct(limits, meter, { cost: 60, spent: 10, startedAt: 500 }, 1_100))).toEqual([
      [1_000, 0],
    ]);
  });

  test("charges what was spent beyond, to the window of the moment", () => {
    expect(Object.values(correct(limits, meter, { cost: 60, spent: 90, startedAt: 500 }, 900))).toEqual([
      [0, 90],
    ]);
    expect(Object.values(correct(limits, meter, { cost: 60, spent: 90, startedAt: 500 }, 1_100))).toEqual([
      [1_000, 30],
    ]);
  });

  test("of a paced limit gives back what lies ahead of the time that was reserved, and no more", () => {
    const paced = [limit(10, 5_000, { unit: "tokens", pace: true })];
    const after = spend(paced, NO_METER, 2, 1_000);
    expect(Object.values(after)).toEqual([[2_000, 0]]);
    const spentNothing = { cost: 2, spent: 0, startedAt: 1_000 };
    expect(Object.values(correct(paced, after, spentNothing, 1_400))).toEqual([[1_400, 0]]);
    expect(Object.values(correct(paced, after, spentNothing, 3_600))).toEqual([[2_000, 0]]);
    expect(Object.values(correct(paced, after, { ...spentNothing, spent: 1 }, 1_100))).toEqual([[1_500, 0]]);
    expect(Object.values(correct(paced, after, { ...spentNothing, spent: 4 }, 1_100))).toEqual([[3_000, 0]]);
  });

  test("is none of a limit on how many start", () => {
    const starts = [limit(3, 1_000)];
    const one = spend(starts, NO_METER, 60, 500);
    expect(correct(starts, one, { cost: 60, spent: 0, startedAt: 500 }, 900)).toEqual(one);
  });
});

describe("rate limits as they are written", () => {
  test("are one or several, or none", () => {
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
  ])("are refused where they say nothing: %j", (options, word) => {
    expect(() => parseRateLimits(options as never, "rateLimit")).toThrow(word);
  });
});
