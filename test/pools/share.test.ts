import * as fc from "fast-check";
import { expect, test } from "vitest";
import { share } from "../../src/pools/share.ts";

const wants = fc.array(fc.record({ min: fc.nat(5), size: fc.nat(30) }), { minLength: 1, maxLength: 6 });

test("requests that fit are met", () => {
  expect(
    share(10, [
      { min: 0, size: 3 },
      { min: 1, size: 7 },
    ]),
  ).toEqual([3, 7]);
});

test("the smallest request is met first, and the rest is divided evenly", () => {
  const sizes = [2, 20, 20].map((size) => ({ min: 0, size }));
  expect(share(12, sizes)).toEqual([2, 5, 5]);
});

test("minimums come first", () => {
  expect(
    share(4, [
      { min: 3, size: 9 },
      { min: 0, size: 9 },
    ]),
  ).toEqual([3, 1]);
});

test("no more is given than there is, or than is wanted, and nothing is left that is wanted", () => {
  fc.assert(
    fc.property(fc.nat(60), wants, (cap, list) => {
      const given = share(cap, list);
      const total = given.reduce((sum, each) => sum + each, 0);
      const wanted = list.reduce((sum, { size }) => sum + size, 0);
      expect(total).toBe(Math.min(cap, wanted));
      given.forEach((count, at) => expect(count).toBeLessThanOrEqual(list[at]!.size));
    }),
  );
});
