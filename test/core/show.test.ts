import * as fc from "fast-check";
import { expect, test } from "vitest";
import { show } from "../../src/core/show.ts";

class Account {
  readonly password = "hunter2";
}

test.each([
  ["short", '"short"'],
  ["two\nlines", '"two\\nlines"'],
  ["x".repeat(61), `"${"x".repeat(57)}…"`],
  ["x".repeat(60), `"${"x".repeat(60)}"`],
  [5, "5"],
  [Number.NaN, "NaN"],
  [-0, "0"],
  [12n, "12n"],
  [true, "true"],
  [null, "null"],
  [undefined, "undefined"],
  [[1, 2, 3], "an array of 3"],
  [{ password: "hunter2" }, "an object"],
  [Object.create(null), "an object"],
  [new Account(), "an instance of Account"],
  [new Map(), "an instance of Map"],
  [new Uint8Array(2), "an instance of Uint8Array"],
  [new Date(0), "1970-01-01T00:00:00.000Z"],
  [new Date(Number.NaN), "an invalid Date"],
  [Symbol("secret"), "a symbol"],
  [() => "secret", "a function"],
])("%o is shown as %s", (value, text) => {
  expect(show(value)).toBe(text);
});

test("is short, on one line, and tells no value of an object, whatever it is given", () => {
  fc.assert(
    fc.property(fc.anything(), (value) => {
      const text = show(value);
      expect(text.length).toBeLessThan(400);
      expect(text).not.toContain("\n");
    }),
  );
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.constant("hunter2")), (value) => {
      expect(show(value)).not.toContain("hunter2");
    }),
  );
});
