import { expect, test } from "vitest";
import { Keeper } from "../../src/broker/housekeeping/keeper.ts";
import { DibsError } from "../../src/core/errors.ts";
import type { DueDocument } from "../../src/engine/engine.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";

/** A keeper over a store that says when the next thing is due. */
function makeKeeper(answers: (number | null | "fails" | "breaks")[] = []) {
  const clock = new ManualClock();
  const tended: number[] = [];
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
    tended.push(clock.read().awake);
    const next = answers.shift() ?? null;
    meanwhile();
    meanwhile = () => {};
    if (next === "fails") throw new DibsError("UNAVAILABLE", "busy");
    if (next === "breaks") throw new TypeError("no such thing");
    return { next, now: clock.read().wall, due: due.splice(0) } as never;
  };
  const keeper = new Keeper(
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
  const whileTending = (fn: () => void): void => void (meanwhile = fn);
  const counts = { polls: () => polls, looks: () => looks };
  return { keeper, clock, tended, pruned, due, fired, faults, ...counts, whileTending };
}

test("looks after the store every two seconds", async () => {
  const { clock, tended, polls } = makeKeeper();
  await clock.advance(10_000);
  expect(tended).toEqual([2_000, 4_000, 6_000, 8_000, 10_000]);
  expect(polls()).toBe(5);
});

test("wakes for what is due sooner, and for nothing else", async () => {
  const { keeper, clock, tended, looks } = makeKeeper();
  keeper.expect(5_000);
  keeper.expect(300);
  keeper.expect(700);
  await clock.advance(1_000);
  expect(tended).toEqual([300]);
  // Whoever waits for it asks in the same moment.
  expect(looks()).toBe(1);
});

test("goes by what the store says is next", async () => {
  const { clock, tended } = makeKeeper([100, 0, 0, 50]);
  await clock.advance(2_400);
  expect(tended).toEqual([2_000, 2_100, 2_100, 2_100, 2_150]);
});

test("looks again for what it is told of while it looks", async () => {
  const { keeper, clock, tended, whileTending } = makeKeeper();
  whileTending(() => {
    keeper.expect(500);
    keeper.expect(60_000);
  });
  await clock.advance(2_000);
  expect(tended).toEqual([2_000]);
  await clock.advance(500);
  expect(tended).toEqual([2_000, 2_500]);
});

test("meets what is due after the machine slept", async () => {
  const { keeper, clock, tended } = makeKeeper();
  await clock.advance(1_000);
  clock.sleep(3_600_000);
  keeper.expect(200);
  await clock.advance(500);
  expect(tended).toEqual([1_200]);
});

test("does not give up when the store is in trouble", async () => {
  const { clock, tended } = makeKeeper(["fails", "fails"]);
  await clock.advance(6_000);
  expect(tended).toEqual([2_000, 4_000, 6_000]);
});

test("tells of a fault once, and goes on", async () => {
  const { clock, tended, faults } = makeKeeper(["breaks", "breaks", "fails", null, "breaks"]);
  await clock.advance(6_000);
  expect(tended).toEqual([2_000, 4_000, 6_000]);
  expect(faults).toEqual([expect.any(TypeError)]);
  await clock.advance(4_000);
  expect(faults).toHaveLength(2);
});

test("sees to retention now and then", async () => {
  const { clock, pruned } = makeKeeper();
  await clock.advance(40_000);
  expect(pruned).toEqual([16_000, 32_000]);
});

test("stops when it is closed", async () => {
  const { keeper, clock, tended } = makeKeeper();
  keeper.close();
  keeper.expect(10);
  await clock.advance(10_000);
  expect(tended).toEqual([]);
});

test("fires what is due, and looks again at once", async () => {
  const { clock, tended, due, fired } = makeKeeper();
  due.push({ kind: "schedule", name: "nightly", value: "{}" });
  await clock.advance(3_000);
  expect(fired).toEqual(["nightly at 2000"]);
  expect(tended).toEqual([2_000, 2_000]);
});
