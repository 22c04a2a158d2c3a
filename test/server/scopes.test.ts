import * as fc from "fast-check";
import { expect, test } from "vitest";
import { Grant, type Scope } from "../../src/server/scopes.ts";

const grant = (...patterns: string[]): Grant =>
  new Grant(
    "t",
    patterns.map((pattern): Scope => `add:${pattern}`),
  );

test.each([
  ["emails", "emails", true],
  ["emails", "emails2", false],
  ["*", "", true],
  ["*", "anything/at.all", true],
  ["shop.*", "shop.", true],
  ["shop.*", "shop", false],
  ["shop.*", "shopX", false],
  ["*/verify", "a/verify", true],
  ["*/verify", "a/verify/b", false],
  ["a*a", "a", false],
  ["a*a", "aa", true],
  ["ab*ba", "aba", false],
  ["a*b*c", "a-b-c", true],
  ["a*b*c", "acb", false],
  ["a*bc*c", "abc", false],
  ["**", "x", true],
  ["*a*a*a*b", "aaab", true],
])("the pattern %s is matched with the name %s", (pattern, name, isMatch) => {
  expect(grant(pattern).allows("add", name)).toBe(isMatch);
});

test("a refusal names all missing scopes, up to five", () => {
  const refusal = (queues: string[]): unknown => {
    try {
      return grant("a/1").need(["add"], queues);
    } catch (error) {
      return (error as Error).message;
    }
  };
  expect(refusal(["a/1", "a/1"])).toBeUndefined();
  expect(refusal(["a/1", "a/2", "a/3", "a/2"])).toContain("it needs the scope add:a/2, and add:a/3. ");
  const many = Array.from({ length: 8 }, (_, index) => `a/${index}`);
  expect(refusal(many)).toContain(
    "add:a/0, and add:a/2, and add:a/3, and add:a/4, and add:a/5, and 2 more. ",
  );
});

test("patterns match like the equivalent regular expression", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "."), maxLength: 12 });
  const pattern = fc.string({ unit: fc.constantFrom("a", "b", ".", "*"), maxLength: 8 });
  fc.assert(
    fc.property(pattern, text, (given, name) => {
      const expression = new RegExp(`^${given.replaceAll(".", "\\.").replaceAll("*", ".*")}$`, "s");
      expect(grant(given).allows("add", name)).toBe(expression.test(name));
    }),
    { numRuns: 2_000 },
  );
});

// With a backtracking expression, eight stars would take practically forever.
test("many stars and a name that almost matches are decided at once", () => {
  expect(grant(`${"*a".repeat(60)}*b`).allows("add", "a".repeat(250))).toBe(false);
});

test.each<[string, unknown]>([
  ["too long to be a name", "a".repeat(600)],
  ["no text", { toString: 1 }],
  ["missing", undefined],
])("a name that is %s is refused before any pattern is matched", (_, queue) => {
  const all = [grant("*a*a*a*b"), grant("*")];
  for (const each of all)
    expect(() => each.need(["add"], [queue])).toThrow(expect.objectContaining({ code: "INVALID" }));
});
