import { expect, test } from "vitest";
import { strayLineWriters } from "../line-writers.ts";

test("only line/enter-line.ts writes to the tables of a line", () => {
  // insertRow gets the table's name from its callers: from a literal, or of a type that has no table of a line.
  expect(strayLineWriters("sqlite", ["line/enter-line.ts", "statements/insert-row.ts"])).toEqual([]);
});

test("the search for other writers finds those of enter-line.ts", () => {
  expect(strayLineWriters("sqlite", []).length).toBeGreaterThan(9);
});
