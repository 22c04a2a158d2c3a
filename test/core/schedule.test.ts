import { expect, test } from "vitest";
import { fire, type Missed, type ScheduleState } from "../../src/core/time/schedule.ts";

const HOUR = 3_600_000;

/** An hourly schedule that has fired at no time yet. */
const hourly = (missed: Missed): ScheduleState => ({
  definition: { every: HOUR, missed, task: { queue: "q", data: "1" } },
  ...{ declared: null, paused: false, createdAt: 0, from: 0, planned: HOUR, lastAt: null, error: null },
});

test("one firing makes up for all missed times, a hundred at most", () => {
  const few = fire(hourly("all"), 3.5 * HOUR);
  expect(few.times).toEqual([HOUR, 2 * HOUR, 3 * HOUR]);
  expect(few.after).toMatchObject({ planned: 4 * HOUR, lastAt: 3 * HOUR });
  const many = fire(hourly("all"), 250 * HOUR);
  expect(many.times).toEqual(Array.from({ length: 100 }, (_, n) => (n + 1) * HOUR));
  expect(many.after).toMatchObject({ planned: 101 * HOUR });
});

test("a firing after more than a thousand missed times begins with the thousandth before now", () => {
  const { times } = fire(hourly("all"), 1_500 * HOUR);
  expect([times.length, times[0]]).toEqual([100, 501 * HOUR]);
});

test("a firing skips times that were missed by more than a minute, if the schedule says so", () => {
  expect(fire(hourly("skip"), HOUR + 60_000).times).toEqual([HOUR]);
  const late = fire(hourly("skip"), HOUR + 60_001);
  expect(late.times).toEqual([]);
  expect(late.after).toMatchObject({ planned: 2 * HOUR, lastAt: null });
});
