import { expect, test } from "vitest";
import { Floors, GROUND } from "../../../src/engines/postgres/floors.ts";

function setUp() {
  const time = { now: 0 };
  const floors = new Floors(() => time.now);
  floors.sample(100);
  time.now += 5_000;
  floors.sample(200);
  return { floors, time };
}

const at = (pos: number, rank = 0) => ({ rank, pos });

test("a claim begins where the last one found its first task", () => {
  const { floors } = setUp();
  expect(floors.of("q")).toBe(GROUND);
  floors.found("q", GROUND, at(50), false);
  expect(floors.of("q")).toEqual(at(50));
  expect(floors.of("other")).toBe(GROUND);
});

test("a number that was given out a moment ago is no floor: an add below it may not be committed", () => {
  const { floors, time } = setUp();
  floors.found("q", GROUND, at(150), false);
  expect(floors.of("q")).toBe(GROUND);
  time.now += 5_000;
  floors.found("q", GROUND, at(150), false);
  expect(floors.of("q")).toEqual(at(150));
});

test("what comes back below it lowers it", () => {
  const { floors } = setUp();
  floors.found("q", GROUND, at(50), false);
  floors.lower("q", at(70));
  expect(floors.of("q")).toEqual(at(50));
  floors.lower("q", at(20));
  expect(floors.of("q")).toEqual(at(20));
  floors.lower("q", at(90, -5));
  expect(floors.of("q")).toEqual(at(90, -5));
  floors.forget("q");
  expect(floors.of("q")).toBe(GROUND);
});

test("now and then a claim looks from the ground, sooner where there was too little above", () => {
  const { floors, time } = setUp();
  floors.found("q", GROUND, at(50), false);
  time.now += 4_999;
  floors.found("q", floors.of("q"), at(60), false);
  expect(floors.of("q")).toEqual(at(60));
  time.now += 1;
  expect(floors.of("q")).toBe(GROUND);
  floors.found("q", GROUND, at(60), true);
  time.now += 999;
  expect(floors.of("q")).toEqual(at(60));
  time.now += 1;
  expect(floors.of("q")).toBe(GROUND);
});
