import { expect, test } from "vitest";
import { costFrom } from "../../src/core/run/stage-cost.ts";

test("a cost is a number from 0 to a billion, or a function of the input that returns one", () => {
  for (const cost of [0, 1, 1e9]) {
    expect(costFrom(cost, null, "cost")).toBe(cost);
    expect(costFrom((input: number) => input, cost, "cost")).toBe(cost);
  }
  for (const cost of [-1, 1e9 + 1, 0.5]) {
    expect(() => costFrom(cost, null, "cost")).toThrow("cost must be");
    expect(() => costFrom(() => cost, null, "cost")).toThrow("cost must be");
  }
});
