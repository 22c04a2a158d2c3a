import { expect, test } from "vitest";
import { Housekeeper } from "../../src/broker/housekeeping/housekeeper.ts";
import { DibsError } from "../../src/core/errors/errors.ts";
import type { DueDocument } from "../../src/engine/documents.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";

/** A housekeeper over a store whose answers say when the next thing is due. */
function makeHousekeeper(answers: (number | null | "fails" | "breaks")[] = []) {
  const clock = new ManualClock();
  const checkedAt: number[] = [];
  const pruned: number[] = [];
  const due: DueDocument[] = [];
  const fired: string[] = [];
  const faults: unknown[] = [];
  const start = clock.read().wall;
  let polls = 0;
  let looks = 0;
  let meanwhile = (): void => {};
  const run = async ({ verb }: { verb: string }): Promise<never> => {
    if (verb === "prune") {
      pruned.push(clock.read().awake);
      return { removed: 0, more: false } as never;
    }
    checkedAt.push(clock.read().awake);
    const next = answers.shift() ?? null;
    meanwhile();
    meanwhile = () => {};
    if (next === "fails") throw new DibsError("UNAVAILABLE", "busy");
    if (next === "breaks") throw new TypeError("no such thing");
    return { next, now: clock.read().wall, due: due.splice(0) } as never;
  };
  const housekeeper = new Housekeeper(
    run,
    clock,
    2_000,
    () => polls++,
    () => looks++,
    async (documents, now) => {
      fired.push(...documents.map(({ name }) => `${name} at ${now - start}`));
      return true;
    },
    (error) => faults.push(error),
  );
  const duringCheck = (fn: () => void): void => void (meanwhile = fn);
  const counts = { polls: () => polls, looks: () => looks };
  return { housekeeper, clock, checkedAt, pruned, due, fired, faults, ...counts, duringCheck };
}

test("the housekeeper polls the store every two seconds", async () => {
  const { clock, checkedAt, polls } = makeHousekeeper();
  await clock.advance(10_000);
  expect(checkedAt).toEqual([2_000, 4_000, 6_000, 8_000, 10_000]);
  expect(polls()).toBe(5);
});

test("the housekeeper wakes earlier for what is due, and for nothing else", async () => {
  const { housekeeper, clock, checkedAt, looks } = makeHousekeeper();
  housekeeper.expect(5_000);
  housekeeper.expect(300);
  housekeeper.expect(700);
  await clock.advance(1_000);
  expect(checkedAt).toEqual([300]);
  // Waiting claims are retried at the same moment.
  expect(looks()).toBe(1);
});

test("a poll joins what is due only if the last one was half an interval ago", async () => {
  const { housekeeper, clock, polls, looks } = makeHousekeeper();
  await clock.advance(2_000);
  housekeeper.expect(300);
  await clock.advance(300);
  expect([polls(), looks()]).toEqual([1, 1]);
  housekeeper.expect(900);
  await clock.advance(900);
  expect([polls(), looks()]).toEqual([2, 1]);
});

test("the housekeeper follows the store's next due time", async () => {
  const { clock, checkedAt } = makeHousekeeper([100, 0, 0, 50]);
  await clock.advance(2_400);
  expect(checkedAt).toEqual([2_000, 2_100, 2_100, 2_100, 2_150]);
});

test("the housekeeper checks again for what is announced during a call", async () => {
  const { housekeeper, clock, checkedAt, duringCheck } = makeHousekeeper();
  duringCheck(() => {
    housekeeper.expect(500);
    housekeeper.expect(60_000);
  });
  await clock.advance(2_000);
  expect(checkedAt).toEqual([2_000]);
  await clock.advance(500);
  expect(checkedAt).toEqual([2_000, 2_500]);
});

test("the housekeeper finds what became due while the machine slept", async () => {
  const { housekeeper, clock, checkedAt } = makeHousekeeper();
  await clock.advance(1_000);
  clock.sleep(3_600_000);
  housekeeper.expect(200);
  await clock.advance(500);
  expect(checkedAt).toEqual([1_200]);
});

test("the housekeeper does not give up when the store is unavailable", async () => {
  const { clock, checkedAt } = makeHousekeeper(["fails", "fails"]);
  await clock.advance(6_000);
  expect(checkedAt).toEqual([2_000, 4_000, 6_000]);
});

test("the housekeeper reports a fault once, and continues", async () => {
  const { clock, checkedAt, faults } = makeHousekeeper(["breaks", "breaks", "fails", null, "breaks"]);
  await clock.advance(6_000);
  expect(checkedAt).toEqual([2_000, 4_000, 6_000]);
  expect(faults).toEqual([expect.any(TypeError)]);
  await clock.advance(4_000);
  expect(faults).toHaveLength(2);
});

test("the housekeeper removes tasks past their retention from time to time", async () => {
  const { clock, pruned } = makeHousekeeper();
  await clock.advance(40_000);
  expect(pruned).toEqual([16_000, 32_000]);
});

test("a closed housekeeper stops", async () => {
  const { housekeeper, clock, checkedAt } = makeHousekeeper();
  housekeeper.close();
  housekeeper.expect(10);
  await clock.advance(10_000);
  expect(checkedAt).toEqual([]);
});

test("the housekeeper fires due documents, and checks again at once", async () => {
  const { clock, checkedAt, due, fired } = makeHousekeeper();
  due.push({ kind: "schedule", name: "nightly", value: "{}" });
  await clock.advance(3_000);
  expect(fired).toEqual(["nightly at 2000"]);
  expect(checkedAt).toEqual([2_000, 2_000]);
});
