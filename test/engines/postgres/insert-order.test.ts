import { expect, test } from "vitest";
import { InsertOrder, type InsertPlace } from "../../../src/engines/postgres/transaction/insert-order.ts";

const key = (of: number, name: string): InsertPlace => ({ kind: "key", of, name });
const lane = (of: number, name: string): InsertPlace => ({ kind: "lane", of, name });
const document = (of: string, name: string): InsertPlace => ({ kind: "document", of, name });

/** For each insert, whether it comes behind all before it. */
function orderOf(...inserts: InsertPlace[][]): boolean[] {
  const order = new InsertOrder();
  return inserts.map((places) => order.comeNext(() => places));
}

test("the first insert of a transaction is in order, whatever it inserts", () => {
  expect(orderOf([lane(7, "b"), key(2, "a")])).toEqual([true]);
});

test("inserts are in order if they ascend by kind, then queue, then name", () => {
  const inserts = [[key(2, "a")], [key(2, "b")], [key(10, "a")], [lane(1, "a")], [document("pipeline", "a")]];
  expect(orderOf(...inserts)).toEqual([true, true, true, true, true]);
});

test("an insert is out of order if one of its places comes before the last one so far", () => {
  expect(orderOf([key(2, "b")], [key(3, "a"), key(2, "a")], [key(3, "b")])).toEqual([true, false, true]);
  expect(orderOf([lane(1, "a")], [key(9, "z")])).toEqual([true, false]);
  expect(orderOf([key(10, "a")], [key(9, "a")])).toEqual([true, false]);
});

test("an insert that was out of order does not lower the last place", () => {
  expect(orderOf([key(2, "c")], [key(2, "a")], [key(2, "b")])).toEqual([true, false, false]);
});

test("names are ordered by their bytes, as the server orders them", () => {
  // In UTF-16, which JavaScript compares, the second comes before the first.
  expect(orderOf([key(1, "\uFFFD")], [key(1, "\u{1F600}")])).toEqual([true, true]);
});

test("a transaction has inserted nothing until it inserts something", () => {
  const order = new InsertOrder();
  expect(order.isEmpty).toBe(true);
  order.comeNext(() => [key(1, "a")]);
  expect(order.isEmpty).toBe(false);
});
