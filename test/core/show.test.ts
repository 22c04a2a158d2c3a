import * as fc from "fast-check";
import { expect, test } from "vitest";
import { show } from "../../src/core/errors/show.ts";

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

const throws = (): never => {
  throw new Error("out of show()");
};

test.each<[string, unknown]>([
  ["toString is a number", { toString: 1 }],
  ["the class has a name that is no text", { constructor: { name: { toString: 1 } } }],
  ["the class has a name that is long", { constructor: { name: "x".repeat(5_000) } }],
  ["constructor is null", { constructor: null }],
  ["constructor throws", Object.defineProperty({}, "constructor", { get: throws })],
  [
    "the prototype has a constructor that throws",
    Object.create(Object.defineProperty({}, "constructor", { get: throws })),
  ],
  [
    "the class throws when asked for its name",
    Object.create({ constructor: Object.defineProperty(() => {}, "name", { get: throws }) }),
  ],
  ["length lies", JSON.parse('{"length":1e9,"then":1,"toJSON":1,"__proto__":{"toString":1}}')],
  ["its prototype is Date's", Object.create(Date.prototype)],
  [
    "every access to it throws",
    new Proxy({}, { get: throws, getPrototypeOf: throws, has: throws, ownKeys: throws }),
  ],
  ["it was revoked", revoked()],
])("show describes a hostile object: %s", (_, value) => {
  expect(show(value)).toMatch(/^an object( that cannot be read)?$/);
});

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

test("show escapes what a terminal would execute", () => {
  expect(show("a\u001b[2J\u009b31m\u007f\u202e\u2028")).toBe(
    String.raw`"a\u001b[2J\u009b31m\u007f\u202e\u2028"`,
  );
});

test("show is short, has one line, and reveals no value inside an object, for any input", () => {
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
