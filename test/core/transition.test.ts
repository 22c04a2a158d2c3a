import { describe, expect, it } from "vitest";
import { DEFAULT_POLICY } from "../../src/core/queue/policy.ts";
import {
  afterFailure,
  afterReturn,
  isOverruledByCancel,
  joinsGroupWhenDue,
  NEVER,
  stepsAside,
} from "../../src/core/task/transition.ts";

const NOW = 1_000;
const FAILED = { failures: 1, maxAttempts: 3, cancelRequested: false, expiresAt: null, runEnded: false };

describe("after a failed attempt", () => {
  it("a task with attempts left enters the line at once, or when its delay has passed", () => {
    expect(afterFailure(FAILED, { delay: 0 }, NOW)).toEqual({ to: "line" });
    expect(afterFailure(FAILED, { delay: 5 }, NOW)).toEqual({ to: "scheduled", dueAt: NOW + 5 });
  });

  it("a task without attempts left is dead, even if its time-to-live has passed", () => {
    expect(afterFailure({ ...FAILED, failures: 3, expiresAt: NOW }, { delay: 0 }, NOW)).toEqual({
      to: "dead",
    });
  });

  it("a cancelled task and a task of an ended run end cancelled, even without attempts left", () => {
    const last = { ...FAILED, failures: 3 };
    expect(afterFailure({ ...last, cancelRequested: true }, { delay: 0 }, NOW)).toEqual({ to: "cancelled" });
    expect(afterFailure({ ...last, runEnded: true }, { delay: 0 }, NOW)).toEqual({ to: "cancelled" });
  });
});

describe("a task that returns to the line", () => {
  const task = { expiresAt: null, runEnded: false };

  it("a returned task expires when its time-to-live ends, and not before", () => {
    expect(afterReturn({ ...task, expiresAt: NOW }, { delay: 0 }, NOW)).toEqual({ to: "expired" });
    expect(afterReturn({ ...task, expiresAt: NOW + 1 }, { delay: 0 }, NOW)).toEqual({ to: "line" });
  });

  it("a returned task is cancelled with its run, even if its time-to-live has passed", () => {
    expect(afterReturn({ expiresAt: NOW, runEnded: true }, { delay: 0 }, NOW)).toEqual({ to: "cancelled" });
  });

  it("a task is parked until its signal, also with a timeout of 0 and without a timeout", () => {
    expect(afterReturn(task, { delay: 0, signal: "go" }, NOW)).toEqual({ to: "parked", dueAt: NOW });
    expect(afterReturn(task, { delay: NEVER, signal: "go" }, NOW)).toEqual({ to: "parked", dueAt: NEVER });
  });
});

it("a cancelled task ends with every settlement but a failure, which is recorded first", () => {
  expect(isOverruledByCancel(true, "done")).toBe(true);
  expect(isOverruledByCancel(true, "fail")).toBe(false);
  expect(isOverruledByCancel(false, "done")).toBe(false);
});

it("the head of a group steps aside only if several of its tasks may run at a time", () => {
  const groups = (concurrency: number) => ({ groups: { ...DEFAULT_POLICY.groups, concurrency } });
  expect(stepsAside(true, groups(1))).toBe(false);
  expect(stepsAside(true, groups(2))).toBe(true);
  expect(stepsAside(false, groups(2))).toBe(false);
});

it("only a delayed new task joins its group at the tail when it is due", () => {
  const delayed = { groupKey: "a", blocksGroup: false, failures: 0, signal: null };
  expect(joinsGroupWhenDue(delayed)).toBe(true);
  expect(joinsGroupWhenDue({ ...delayed, groupKey: null })).toBe(false);
  expect(joinsGroupWhenDue({ ...delayed, blocksGroup: true })).toBe(false);
  expect(joinsGroupWhenDue({ ...delayed, failures: 1 })).toBe(false);
  expect(joinsGroupWhenDue({ ...delayed, signal: "go" })).toBe(false);
});
