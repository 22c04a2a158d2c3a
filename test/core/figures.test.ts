import { describe, expect, test } from "vitest";
import { countOf, showFigure, showMs, showPercent, showRate } from "../../src/core/answer/figures.ts";

describe("figures in sentences", () => {
  test.each([
    [0, "0"],
    [0.0123, "0.012"],
    [1.26, "1.3"],
    [99.4, "99"],
    [100.4, "100"],
    [1234.5, "1235"],
    [Number.POSITIVE_INFINITY, "unlimited"],
  ])("the figure %d is shown as %s", (value, shown) => {
    expect(showFigure(value)).toBe(shown);
  });

  test.each([
    [0.4, "0 ms"],
    [999, "999 ms"],
    [1_000, "1 s"],
    [119_000, "119 s"],
    [120_000, "2 min"],
    [7_199_999, "120 min"],
    [7_200_000, "2 h"],
    [Number.POSITIVE_INFINITY, "forever"],
  ])("the time of %d ms is shown as %s", (ms, shown) => {
    expect(showMs(ms)).toBe(shown);
  });

  test("rates, shares and counts have a unit", () => {
    expect(showRate(12.34)).toBe("12 tasks/s");
    expect(showPercent(0.125)).toBe("13 %");
    expect([countOf(0, "task"), countOf(1, "task"), countOf(2, "task")]).toEqual([
      "0 tasks",
      "1 task",
      "2 tasks",
    ]);
  });
});
