import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checkNames, checkNumber, checkObject, checkText } from "../../src/core/input/options.ts";
import { checkQueueName } from "../../src/core/queue/queue-name.ts";
import { cpuTimeOf } from "./cpu-time.ts";

describe("option names", () => {
  test("an unknown option is refused with the list of known ones", () => {
    expect(() => checkNames({ delay: 1 }, ["delay", "ttl"], "add")).not.toThrow();
    expect(() => checkNames({ dealy: 1 }, ["delay", "ttl"], "add")).toThrow(
      'Unknown add option "dealy". Known: delay, ttl.',
    );
  });

  test("a name that every object has is an unknown option too", () => {
    expect(() => checkNames({ constructor: 1 }, ["delay"], "add")).toThrow(
      'Unknown add option "constructor"',
    );
    expect(() => checkNames(JSON.parse('{"__proto__": 1}') as object, ["delay"], "add")).toThrow("__proto__");
  });
});

test("an object is required: arrays, null and other values are refused", () => {
  expect(() => checkObject({}, "options")).not.toThrow();
  for (const value of [null, [], "text", 5, undefined, () => {}]) {
    expect(() => checkObject(value, "options")).toThrow("options must be an object; got ");
  }
});

test("a number must be whole and within bounds, bounds included", () => {
  expect([0, 5, 10].map((value) => checkNumber(value, "max", 0, 10))).toEqual([0, 5, 10]);
  for (const value of [-1, 11, 0.5, Number.NaN, Number.POSITIVE_INFINITY, "5", 5n, null]) {
    expect(() => checkNumber(value, "max", 0, 10)).toThrow("max must be a whole number from 0 to 10; got ");
  }
});

describe("text options", () => {
  test("a text must have at least one character and no control characters", () => {
    expect(checkText("customer-42 / Ω 🙂", "groupKey", 512)).toBe("customer-42 / Ω 🙂");
    expect(checkText("x".repeat(512), "groupKey", 512)).toHaveLength(512);
    for (const value of ["", "x".repeat(513), "a\nb", "a\u0000", "\u007f", 5, null, undefined]) {
      expect(() => checkText(value, "groupKey", 512)).toThrow(
        "groupKey must be a text of 1 to 512 characters",
      );
    }
  });

  test("a text with half a surrogate pair is refused, because it would change on disk", () => {
    expect(() => checkText("\ud83d", "groupKey", 512)).toThrow("groupKey");
    fc.assert(
      fc.property(fc.string({ unit: "binary", minLength: 1, maxLength: 20 }), (text) => {
        let taken: string;
        try {
          taken = checkText(text, "groupKey", 512);
        } catch {
          return;
        }
        expect(Buffer.from(taken).toString()).toBe(text);
      }),
    );
  });
});

describe("queue names", () => {
  test.each(["emails", "a", "order.placed", "a:b/c-d.e_f", "9", "x".repeat(128)])(
    "the queue name %s is accepted",
    (name) => {
      expect(checkQueueName(name)).toBe(name);
    },
  );

  test.each([
    "",
    "_a",
    "__proto__",
    "-a",
    "a-",
    ".a",
    "a.",
    "/a",
    "a:",
    "a b",
    "a\n",
    "é",
    "a*",
    "x".repeat(129),
    5,
    null,
    undefined,
    {},
  ])("the queue name %s is refused", (name) => {
    expect(() => checkQueueName(name)).toThrow("A queue name has 1 to 128 characters");
  });

  test("a bad queue name is refused quickly", () => {
    const taken = cpuTimeOf(() => {
      expect(() => checkQueueName(`${"a-".repeat(1_000_000)}!`)).toThrow();
      expect(() => checkQueueName(`${"a-".repeat(60)}!`)).toThrow();
    });
    expect(taken).toBeLessThan(500);
  });
});
