import { describe, expect, test } from "vitest";
import { meanWait, probabilityOfWait, serversFor, waitQuantile } from "../../src/core/queue/queueing.ts";

// Values of Erlang C from published tables.
test.each([
  [1, 2, 0.3333],
  [2, 3, 0.4444],
  [5, 6, 0.5875],
  [10, 12, 0.4494],
  [20, 25, 0.2093],
])("with a load of %d, %d servers let an arrival wait with probability %d", (load, servers, expected) => {
  expect(probabilityOfWait(load, servers)).toBeCloseTo(expected, 3);
});

test("one server has the mean wait of M/M/1", () => {
  // ρ/(1 - ρ) × service time
  expect(meanWait(0.8, 100, 1)).toBeCloseTo(400, 9);
});

test("servers that cannot keep up have an infinite wait", () => {
  expect(meanWait(3, 100, 3)).toBe(Number.POSITIVE_INFINITY);
  expect(waitQuantile(3, 100, 2, 0.5)).toBe(Number.POSITIVE_INFINITY);
  expect(probabilityOfWait(3, 3)).toBe(1);
});

test("a queue without load needs no server and does not wait", () => {
  expect(serversFor(0, 100, { share: 0.95, waitMs: 0, utilisation: 1 }, 10)).toBe(0);
  expect(meanWait(0, 100, 0)).toBe(0);
});

test("large numbers of servers neither overflow nor lose digits", () => {
  expect(probabilityOfWait(9_900, 10_000)).toBeGreaterThan(0.2);
  expect(probabilityOfWait(9_900, 10_000)).toBeLessThan(0.3);
});

describe("serversFor", () => {
  const goal = { share: 0.95, waitMs: 1_000, utilisation: 0.9 };

  test("serversFor returns the fewest servers that reach the goal", () => {
    for (const load of [0.1, 0.9, 2.5, 7, 31, 200]) {
      const servers = serversFor(load, 1_000, goal, 10_000);
      const reaches = (count: number) =>
        count > load && load / count <= 0.9 && waitQuantile(load, 1_000, count, 0.95) <= 1_000;
      expect([load, reaches(servers), reaches(servers - 1)]).toEqual([load, true, false]);
    }
  });

  test("serversFor returns more servers than the load if the utilisation must stay below 1", () => {
    expect(serversFor(8, 1, { ...goal, waitMs: 1e9 }, 100)).toBe(9);
    expect(serversFor(8, 1, { ...goal, waitMs: 1e9, utilisation: 0.5 }, 100)).toBe(16);
  });

  test("serversFor never returns more servers than are allowed", () => {
    expect(serversFor(50, 1_000, goal, 20)).toBe(20);
  });
});
