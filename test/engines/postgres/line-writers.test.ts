import { expect, test } from "vitest";
import { strayLineWriters } from "../line-writers.ts";

test("only line/enter-line.ts writes to the tables of a line", () => {
  // insertRows gets the table's name from its callers, which are searched too.
  expect(strayLineWriters("postgres", ["line/enter-line.ts", "statements/insert-rows.ts"])).toEqual([]);
});

test("the search for other writers finds those of enter-line.ts", () => {
  expect(strayLineWriters("postgres", []).length).toBeGreaterThan(9);
});
