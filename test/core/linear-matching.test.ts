// What clients choose to match with is matched in linear time, counted in steps, and lengths are checked before.

import { describe, expect, test, vi } from "vitest";
import { parseSearch } from "../../src/dashboard/search-query.ts";
import { checkPattern, checkTopic, matchesTopic } from "../../src/core/topic/topic.ts";
import { TopicTree } from "../../src/core/topic/topic-tree.ts";
import { Grant } from "../../src/server/scopes.ts";

/** How often `work` calls the method. */
function callsOf(prototype: object, method: string, work: () => void): number {
  const spy = vi.spyOn(prototype as Record<string, () => void>, method);
  try {
    work();
    return spy.mock.calls.length;
  } finally {
    spy.mockRestore();
  }
}

describe("scopes", () => {
  test.each([5, 10, 20, 40])("a name is searched once for each of %i parts between stars", (parts) => {
    const grant = new Grant("t", [`add:${"*a".repeat(parts)}*b`]);
    const steps = callsOf(String.prototype, "indexOf", () => {
      expect(grant.allows("add", `${"a".repeat(250)}cb`)).toBe(true);
      expect(grant.allows("add", "a".repeat(250))).toBe(false);
    });
    expect(steps).toBeLessThanOrEqual(2 * parts);
  });

  test("a name that is too long is refused before it is compared with a pattern", () => {
    const grant = new Grant("t", ["add:*a*a*a*b"]);
    let refused: unknown;
    const steps = callsOf(String.prototype, "indexOf", () => {
      try {
        grant.need(["add"], ["a".repeat(600)]);
      } catch (error) {
        refused = error;
      }
    });
    expect(steps).toBe(0);
    expect(refused).toMatchObject({ code: "INVALID" });
  });
});

describe("patterns of topics", () => {
  const patternOf = (parts: number): string => Array<string>(parts).fill("#.a").join(".");
  const topicOf = (words: number): string => [...Array<string>(words - 1).fill("a"), "b"].join(".");

  test.each([8, 16, 31])(
    "a pattern of %i # reaches each word of a topic once for each of its parts",
    (parts) => {
      const steps = callsOf(Set.prototype, "add", () =>
        expect(matchesTopic(patternOf(parts), topicOf(64))).toBe(false),
      );
      expect(steps).toBeLessThanOrEqual(2 * parts * (64 + 1));
    },
  );

  test.each([8, 16, 31])(
    "the tree visits each part of a pattern of %i # once for each word of a topic",
    (parts) => {
      const tree = new TopicTree<string>();
      tree.add(patternOf(parts), "unlucky");
      const steps = callsOf(Map.prototype, "get", () => expect(tree.match(topicOf(64))).toEqual([]));
      // Three look-ups for each node: the word, *, and #.
      expect(steps).toBeLessThanOrEqual(3 * (2 * parts + 1) * (64 + 1));
    },
  );

  test("a topic and a pattern that are too long are refused before they are split into words", () => {
    const long = "a.".repeat(10_000);
    const splits = callsOf(String.prototype, "split", () => {
      expect(() => checkTopic(long)).toThrow("128");
      expect(() => checkPattern(long)).toThrow("A pattern is");
    });
    expect(splits).toBe(0);
  });
});

describe("the search box of tasks", () => {
  test("a search that is too long is refused before it is taken apart", () => {
    const matches = callsOf(String.prototype, "matchAll", () =>
      expect(() => parseSearch("a".repeat(1_001))).toThrow("1000"),
    );
    expect(matches).toBe(0);
  });

  // A backtracking expression would take practically forever for one of them.
  test.each([
    ["letters without a colon", "a".repeat(1_000)],
    ["an unfinished quotation", `"${"a".repeat(999)}`],
    ["an unfinished quotation of escapes", `"${"\\\\".repeat(499)}\\`],
    ["unfinished quotations", '"\\" '.repeat(250)],
    ["colons", "a:".repeat(500)],
    ["fields with unfinished quotations", 'a:"\\'.repeat(250)],
  ])("%s are taken apart at once", (_, text) => {
    expect(text.length).toBeLessThanOrEqual(1_000);
    expect(parseSearch(text).words.length).toBeGreaterThan(0);
  });

  test.each([1, 10, 100])("a search is taken apart into its %i words", (count) => {
    const words = Array.from({ length: count }, (_, at) => `w${at}`);
    expect(parseSearch(words.join(" ")).words).toEqual(words);
  });
});
