import { expect, test } from "vitest";
import { heldBackBy, heldBackByGroups } from "../../src/core/queue/held-back.ts";
import { resolvePolicy } from "../../src/core/queue/policy.ts";
import { NO_METER, spend } from "../../src/core/queue/rate.ts";

const FIRST = { urgent: false, cost: 1 };
const FREE = { heldUntil: 0, meter: NO_METER, running: 0 };

test("a queue is held back until just before its hold ends", () => {
  const held = (now: number) => heldBackBy(resolvePolicy({}), { ...FREE, heldUntil: 100 }, FIRST, now);
  expect(held(99)).toEqual({ by: "hold", until: 100 });
  expect(held(100)).toBeNull();
});

test("a queue is held back by its rate until just before the next start", () => {
  const policy = resolvePolicy({ rateLimit: [{ max: 1, per: 100, unit: null, pace: false }] });
  const meter = spend(policy.rateLimit, NO_METER, 1, 0);
  const held = (now: number) => heldBackBy(policy, { ...FREE, meter }, FIRST, now);
  expect(held(99)).toEqual({ by: "rate", until: 100 });
  expect(held(100)).toBeNull();
});

test("a queue is held back by its concurrency while that many tasks run", () => {
  const held = (running: number) =>
    heldBackBy(resolvePolicy({ maxConcurrency: 2 }), { ...FREE, running }, FIRST, 0);
  expect(held(1)).toBeNull();
  expect(held(2)).toEqual({ by: "concurrency", until: null });
});

test("a queue is held back by its groups until the first of them may continue", () => {
  expect(heldBackByGroups(100, 99)).toEqual({ by: "groups", until: 100 });
  expect(heldBackByGroups(100, 100)).toBeNull();
  expect(heldBackByGroups(null, 0)).toBeNull();
});
