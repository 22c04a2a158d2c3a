import { expect, test } from "vitest";
import { strayLineWriters } from "../line-writers.ts";

test("only line/enter-line.ts writes to the tables of a line", () => {
  expect(strayLineWriters("sqlite", ["line/enter-line.ts"])).toEqual([]);
});

test("the search for other writers finds those of enter-line.ts", () => {
  expect(strayLineWriters("sqlite", []).length).toBeGreaterThan(9);
});
