import { describe, expect, test } from "vitest";
import { parsePoolFile } from "../../src/pools/config.ts";
import { type PoolOptions, resolvePool } from "../../src/pools/options.ts";

const VALID: PoolOptions = { queues: ["emails"], command: ["node", "worker.js"] };

test("a pool has the name of its queues unless it is given one", () => {
  expect(resolvePool({ ...VALID, queues: ["a", "b", "a"] })).toMatchObject({
    name: "a+b",
    queues: ["a", "b"],
  });
  expect(resolvePool({ ...VALID, name: "mailers" }).name).toBe("mailers");
});

test("a pool has defaults", () => {
  expect(resolvePool(VALID)).toMatchObject({
    ...{ interval: 1_000, stopTimeout: 30_000, lease: 10_000, output: "inherit" },
    runs: { command: ["node", "worker.js"], kind: "program" },
    policy: { min: 0, max: 10, mode: "latency", targetWait: 5_000, downCooldown: 180_000 },
  });
  expect(resolvePool({ ...VALID, mode: "cost" }).policy).toMatchObject({
    targetWait: 300_000,
    downCooldown: 10_000,
  });
});

describe("wrong options of a pool are refused", () => {
  test.each([
    [{ queues: [] }, "queues must be an array"],
    [{ command: "node worker.js" }, 'such as ["node", "worker.js"]'],
    [{ command: undefined }, "A pool needs a command"],
    [{ scale: { command: ["a"] } }, "not both"],
    [{ command: undefined, scale: { webhook: "ftp://x" } }, "scale.webhook must be an address"],
    [{ kind: "bee" }, 'kind must be "program" or "drone"'],
    [{ minimum: 1 }, 'Unknown pool option "minimum"'],
    [{ min: 3, max: 2 }, "min must not be above max"],
    [{ targetWait: "5s", tasksPerWorker: 3 }, "not both"],
    [{ mode: "cost", tasksPerWorker: 3 }, 'is for mode "latency"'],
    [{ upThreshold: 0.4, downThreshold: 0.6 }, "downThreshold must not be above upThreshold"],
    [{ upThreshold: 0 }, "upThreshold must be a number above 0"],
    [{ interval: 1 }, "interval must be between 20 ms"],
    [{ onDecision: 1 }, "onDecision must be a function"],
  ])("the pool options %j are refused", (wrong, problem) => {
    expect(() => resolvePool({ ...VALID, ...wrong } as PoolOptions)).toThrow(problem);
  });
});

describe("the file of several pools", () => {
  test("a file has pools, a cap and alerts", () => {
    const rules = [{ queue: "*", when: "noWorkers" }];
    const file = parsePoolFile({ cap: 8, pools: [VALID, { ...VALID, name: "b" }], alerts: { rules } });
    expect(file).toMatchObject({ cap: 8, pools: [VALID, { name: "b" }], alerts: { rules } });
    expect(parsePoolFile({ pools: [VALID] })).toMatchObject({ cap: null, alerts: null });
  });

  test.each([
    [{}, "pools must be an array of at least one"],
    [{ pools: [VALID, VALID] }, 'Two pools have the name "emails"'],
    [{ pools: [VALID, { ...VALID, max: 0 }] }, "Pool 2 of the file: max must be"],
    [{ pools: [VALID], cap: 0 }, "cap must be a whole number"],
    [{ pools: [VALID], size: 1 }, 'Unknown pool file option "size"'],
    [{ pools: [VALID], alerts: { rules: [] } }, "1 to 100 rules"],
  ])("the file %j is refused", (content, problem) => {
    expect(() => parsePoolFile(content)).toThrow(problem);
  });
});
