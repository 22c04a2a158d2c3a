import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TopicTree } from "../../src/core/topic/topic-tree.ts";
import { copiesOf, matchesTopic, subscriptionQueue } from "../../src/core/topic/topic.ts";
import { checkQueueName } from "../../src/core/queue/queue-name.ts";

// Few words, so that many patterns match many topics.
const word = fc.constantFrom("a", "b", "c");
const part = fc.oneof({ weight: 3, arbitrary: word }, fc.constantFrom("*", "#"));
const dotted = (words: fc.Arbitrary<string>) =>
  fc.array(words, { minLength: 1, maxLength: 6 }).map((parts) => parts.join("."));

describe("TopicTree", () => {
  test("the tree finds exactly the matching patterns, each once", () => {
    const cases = fc.tuple(
      fc.array(dotted(part), { maxLength: 30 }),
      fc.array(dotted(word), { maxLength: 10 }),
    );
    fc.assert(
      fc.property(cases, ([patterns, topics]) => {
        const tree = new TopicTree<number>();
        for (const [index, pattern] of patterns.entries()) tree.add(pattern, index);
        for (const topic of topics) {
          const expected = [...patterns.keys()].filter((index) => matchesTopic(patterns[index]!, topic));
          expect(tree.match(topic).toSorted((a, b) => a - b)).toEqual(expected);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("the tree takes no longer for patterns that could match in very many ways", () => {
    const tree = new TopicTree<string>();
    const pattern = Array(30).fill("#.a").join(".");
    tree.add(pattern, "unlucky");
    const topic = [...Array<string>(60).fill("a"), "b"].join(".");
    expect(tree.match(topic)).toEqual([]);
    expect(matchesTopic(pattern, topic)).toBe(false);
  });
});

describe("the queue of a subscription", () => {
  test.each([
    ["order.placed", "inventory", "topic/order.placed/inventory"],
    ["order.*", "audit", "topic/order.:one/audit"],
    ["#", "everything", "topic/:any/everything"],
    ["*.#.late", "a/b.c", "topic/:one.:any.late/a/b.c"],
  ])("the queue of pattern %s and group %s is %s", (pattern, group, queue) => {
    expect(subscriptionQueue(pattern, group)).toBe(queue);
  });

  test("the queue of a subscription cannot be another group's verification queue", () => {
    expect(() => subscriptionQueue("order.*", "audit/verify")).toThrow(/audit\/verify/);
  });

  test("the queue of a subscription has a valid and unique name", () => {
    const group = fc.constantFrom("a", "b", "a/b", "one", "b.a");
    const subscription = fc.tuple(dotted(part), group);
    fc.assert(
      fc.property(subscription, subscription, (one, other) => {
        const [first, second] = [subscriptionQueue(...one), subscriptionQueue(...other)];
        expect(checkQueueName(first)).toBe(first);
        expect(first === second).toBe(one.join(" ") === other.join(" "));
      }),
    );
  });
});

test("a message becomes one task for each distinct queue", () => {
  const message = { topic: "t", data: "1", priority: 2, headers: { h: "x" } };
  const headers = { h: "x", "dibs-topic": "t" };
  expect(copiesOf(message, ["a", "b", "a"])).toEqual([
    { queue: "a", data: "1", priority: 2, headers },
    { queue: "b", data: "1", priority: 2, headers },
  ]);
  expect(copiesOf(message, [])).toEqual([]);
});
