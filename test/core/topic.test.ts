import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TopicTree } from "../../src/core/topic-tree.ts";
import { copiesOf, matchesTopic, subscriptionQueue } from "../../src/core/topic.ts";
import { checkQueueName } from "../../src/core/queue-name.ts";

// Few words, so that many patterns match many topics.
const word = fc.constantFrom("a", "b", "c");
const part = fc.oneof({ weight: 3, arbitrary: word }, fc.constantFrom("*", "#"));
const dotted = (words: fc.Arbitrary<string>) =>
  fc.array(words, { minLength: 1, maxLength: 6 }).map((parts) => parts.join("."));

describe("the tree of patterns", () => {
  test("finds exactly those that match, each once", () => {
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

  test("takes no longer for patterns that could match in very many ways", () => {
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
  ])("of %s and %s is %s", (pattern, group, queue) => {
    expect(subscriptionQueue(pattern, group)).toBe(queue);
  });

  test("is not the one in which another group's results are verified", () => {
    expect(() => subscriptionQueue("order.*", "audit/verify")).toThrow(/audit\/verify/);
  });

  test("is a name that queues may have, and no two share one", () => {
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

test("a message becomes a task for each queue, once", () => {
  const message = { topic: "t", data: "1", priority: 2, headers: { h: "x" } };
  const headers = { h: "x", "dibs-topic": "t" };
  expect(copiesOf(message, ["a", "b", "a"])).toEqual([
    { queue: "a", data: "1", priority: 2, headers },
    { queue: "b", data: "1", priority: 2, headers },
  ]);
  expect(copiesOf(message, [])).toEqual([]);
});
