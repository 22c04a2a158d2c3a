import { runInNewContext } from "node:vm";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeBody, encodeJson } from "../../src/core/input/json.ts";
import { JSON_TYPE } from "../../src/core/task/task.ts";

test("a value that JSON can carry comes back unchanged", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(decodeBody(encodeJson(value, "data"), JSON_TYPE)).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
});

test("JSON as bytes is decoded; another content type is returned unchanged", () => {
  expect(decodeBody(new TextEncoder().encode('{"é":1}'), JSON_TYPE)).toEqual({ é: 1 });
  const bytes = new Uint8Array([1, 2]);
  expect(decodeBody(bytes, "application/octet-stream")).toBe(bytes);
  expect(decodeBody("plain", "text/plain")).toBe("plain");
});

class Money {
  cents = 1;
}

test("an object of another realm, without a prototype, or with toJSON is accepted", () => {
  const foreign: unknown = runInNewContext("({ a: [1] })");
  expect(encodeJson(foreign, "data")).toBe('{"a":[1]}');
  expect(encodeJson(Object.assign(Object.create(null), { a: 1 }), "data")).toBe('{"a":1}');
  const at = new Date(0);
  expect(encodeJson({ at, price: new Priced() }, "data")).toBe(
    '{"at":"1970-01-01T00:00:00.000Z","price":{"cents":2}}',
  );
});

class Priced extends Money {
  toJSON(): object {
    return { cents: 2 };
  }
}

test("an undefined property is dropped", () => {
  expect(encodeJson({ a: undefined, b: 1 }, "data")).toBe('{"b":1}');
});

describe("a value that JSON cannot carry is refused, and the error names its path", () => {
  const circle: Record<string, unknown> = {};
  circle["itself"] = circle;
  test.each([
    [undefined, "data: undefined"],
    [Number.NaN, "data: NaN"],
    [{ a: [1, Number.POSITIVE_INFINITY] }, "data.a[1]: Infinity"],
    [{ a: 5n }, "data.a: 5n"],
    [{ f: () => {} }, "data.f: a function"],
    [[undefined], "data[0]: undefined"],
    [new Map([[1, 2]]), "data: an instance of Map"],
    [{ s: new Set() }, "data.s: an instance of Set"],
    [new Uint8Array(2), "data: an instance of Uint8Array"],
    [Buffer.from("x"), "data: an instance of Buffer"],
    [{ at: new Date(Number.NaN) }, "data.at: an invalid Date"],
    [new Error("x"), "data: an instance of Error"],
    [circle, "contains itself"],
    [new Money(), "data: an instance of Money"],
    [{ price: [new Money()] }, "data.price[0]: an instance of Money"],
    [new String("text"), "data: an instance of String"],
    [/a/, "data: an instance of RegExp"],
    [{ toJSON: () => undefined }, "JSON cannot carry data"],
  ])("JSON cannot carry %o", (value, message) => {
    expect(() => encodeJson(value, "data")).toThrow(message);
  });

  test("a path of more than 120 characters is cut in the error", () => {
    const failing = (length: number) => () => encodeJson({ ["k".repeat(length)]: Number.NaN }, "data");
    expect(failing(115)).toThrow(`JSON cannot carry data.${"k".repeat(115)}: NaN`);
    expect(failing(116)).toThrow(`JSON cannot carry data.${"k".repeat(112)}…: NaN`);
  });
});

test("any value is either encoded to text that JSON.parse reads, or refused with INVALID", () => {
  fc.assert(
    fc.property(fc.anything({ withBigInt: true, withDate: true, withMap: true, withSet: true }), (value) => {
      let text: string;
      try {
        text = encodeJson(value, "data");
      } catch (error) {
        expect((error as { code?: string }).code).toBe("INVALID");
        return;
      }
      expect(() => JSON.parse(text) as unknown).not.toThrow();
    }),
  );
});
