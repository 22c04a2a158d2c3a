import { describe, expect, it } from "vitest";
import { countNew } from "../../src/core/task/add-rules.ts";
import { countAttempt } from "../../src/core/task/attempt-outcome.ts";
import { noFlow } from "../../src/core/queue/flow.ts";
import { isTaken, keyExpiresAt } from "../../src/core/task/idempotency.ts";
import { deadlineOf, isSilent, leaseOfClaim } from "../../src/core/task/lease.ts";
import { pastRetention } from "../../src/core/task/retention.ts";
import { workersToAvoid } from "../../src/core/task/retry.ts";
import { effectOnRun, losesResult, stateOfRun } from "../../src/core/run/run-end.ts";

/** The rules that all engines share. */

describe("leases", () => {
  it("a session is silent when its lease has passed since the last heartbeat, and not before", () => {
    expect(isSilent({ heartbeatAt: 10, lease: 5 }, 14)).toBe(false);
    expect(isSilent({ heartbeatAt: 10, lease: 5 }, 15)).toBe(true);
  });

  it("a claim of a session lasts at least as long as the session's lease", () => {
    expect(leaseOfClaim(undefined, { lease: 30 }, null)).toBe(30);
    expect(leaseOfClaim(7, { lease: 30 }, null)).toBe(7);
    expect(leaseOfClaim(7, { lease: 30 }, { lease: 20 })).toBe(20);
    expect(leaseOfClaim(undefined, { lease: 30 }, { lease: 20 })).toBe(30);
  });

  it("a manual claim ends with its lease, a claim of a session with the timeout", () => {
    expect(deadlineOf(30, { timeout: 100 }, null, 1_000)).toBe(1_030);
    expect(deadlineOf(30, { timeout: 100 }, { lease: 30 }, 1_000)).toBe(1_100);
  });
});

it("done, failed and rejected attempts count in the rates; released, limited, parked and cancelled ones do not", () => {
  const flow = noFlow();
  countAttempt(flow, "done", 1);
  for (const outcome of ["failed", "timeout", "lost", "refused", "rejected"] as const)
    countAttempt(flow, outcome, 10);
  for (const outcome of ["released", "limited", "parked", "cancelled"] as const)
    countAttempt(flow, outcome, 1_000);
  expect(flow).toEqual({ ...noFlow(), done: 1, failed: 5, serviceMs: 51 });
});

it("a retried task avoids the workers that failed it, unless no other worker serves its queue", () => {
  expect(workersToAvoid(["a", "a"], ["a", "b"])).toEqual(["a"]);
  expect(workersToAvoid(["a", "b"], ["a", "b"])).toBeNull();
  expect(workersToAvoid(["a"], [])).toBeNull();
});

it("a key is taken while its task is pending, and for a day after its end", () => {
  expect(isTaken({ forgetAt: null }, 5)).toBe(true);
  const forgetAt = keyExpiresAt(5);
  expect(forgetAt).toBe(86_400_005);
  expect(isTaken({ forgetAt }, forgetAt - 1)).toBe(true);
  expect(isTaken({ forgetAt }, forgetAt)).toBe(false);
});

it("tasks whose key is taken do not count as new, nor does a second one with the same key", () => {
  const task = (queue: string, idempotencyKey?: string) => ({
    ...{ queue, data: "1" },
    ...(idempotencyKey !== undefined && { idempotencyKey }),
  });
  const tasks = [task("a"), task("a", "x"), task("a", "x"), task("a", "taken"), task("b", "x")];
  const counts = countNew(tasks, ({ idempotencyKey }) => idempotencyKey === "taken");
  expect([...counts]).toEqual([
    ["a", 2],
    ["b", 1],
  ]);
});

describe("runs", () => {
  it("a dead task is reported, a cancelled or expired one ends its run, and an ended run stays as it is", () => {
    expect(effectOnRun("done", null)).toEqual({ kind: "none" });
    expect(effectOnRun("dead", null)).toEqual({ kind: "report" });
    expect(effectOnRun("expired", null)).toEqual({ kind: "end", state: "expired" });
    expect(effectOnRun("cancelled", "done")).toEqual({ kind: "none" });
  });

  it("a removed task costs its run the result, unless it had ended other than dead", () => {
    expect([null, "dead" as const].map(losesResult)).toEqual([true, true]);
    expect((["done", "cancelled", "expired"] as const).map(losesResult)).toEqual([false, false, false]);
  });

  it("a run with a dead task is dead until it ends", () => {
    expect(stateOfRun({ state: null, dead: 0 })).toBe("running");
    expect(stateOfRun({ state: null, dead: 1 })).toBe("dead");
    expect(stateOfRun({ state: "cancelled", dead: 1 })).toBe("cancelled");
  });
});

it("ends past their age, and those beyond the last `count`, are past their retention", () => {
  const earliest = [1, 2, 3, 4];
  const past = (age: number, count: number) =>
    pastRetention(earliest, (at) => at, { age, count }, { ended: 5, now: 10 });
  expect(past(8, 100)).toEqual([1, 2]);
  expect(past(1_000, 4)).toEqual([1]);
  expect(past(1_000, 5)).toEqual([]);
});
