import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import type { Reading } from "../../../src/core/time/clock.ts";
import { DEFAULT_POLICY, type GroupPolicy } from "../../../src/core/queue/policy.ts";
import type { ClaimedTask } from "../../../src/core/task/task.ts";
import type { Op, VerbName, Verbs } from "../../../src/engine/engine.ts";
import { newTask, now, openStore, QUEUE, tempPath, worker } from "./kit.ts";

const MINUTE = 60_000;
const HOLD = { kind: "hold", error: { name: "Error", message: "429", stack: null }, delay: MINUTE } as const;
const DONE = { kind: "done", result: null } as const;

/** A store whose time the test moves, and queries on its tables. */
function world() {
  const path = tempPath();
  const store = openStore(path);
  let reading: Reading = { ...now(), wall: 1_800_000_000_000 };
  const db = new Database(path, { readonly: true });
  onTestFinished(() => void db.close());
  const ask = <V extends VerbName>(op: Op<V>): Verbs[V]["out"] => {
    const outcome = store.execute([op], reading).outcomes[0];
    if ("refused" in outcome) throw new Error(outcome.refused.message);
    return outcome.ok;
  };
  return {
    ask,
    pass: (ms: number): void => {
      const { boot, wall, elapsed, awake } = reading;
      reading = { boot, wall: wall + ms, elapsed: elapsed + ms, awake: awake + ms };
    },
    count: (table: string): number =>
      (db.prepare(`SELECT count(*) AS count FROM ${table}`).get() as { count: number }).count,
    /** What the queue's lanes contain, and whether it has a gate. */
    flags: () => db.prepare(`SELECT lanes, gate FROM queue WHERE name = ?`).get(QUEUE),
    govern: (groups: Partial<GroupPolicy>) =>
      ask({ verb: "declare", queue: QUEUE, policy: { groups: { ...DEFAULT_POLICY.groups, ...groups } } }),
    add: (count: number, groupKey?: string) =>
      ask({
        verb: "add",
        tasks: Array.from({ length: count }, () => newTask(groupKey === undefined ? {} : { groupKey })),
      }),
    claim: (session?: number) =>
      ask({
        verb: "claim",
        queues: [QUEUE],
        max: 100,
        worker: "w",
        ...(session !== undefined && { session }),
      }).tasks,
    settle: ({ id, fence }: ClaimedTask, settlement: Op<"settle">["settlement"] = DONE) =>
      ask({ verb: "settle", id, fence, settlement }),
  };
}

test("a lane is deleted with its last task, unless it stores something", () => {
  const { govern, add, claim, settle, count } = world();
  govern({ concurrency: 3 });
  add(5, "a");
  for (const task of claim()) settle(task);
  for (const task of claim()) settle(task);
  expect(count("lane")).toBe(0);
  govern({ rateLimit: [{ max: 9, per: MINUTE, pace: false, unit: null }] });
  add(1, "a");
  settle(claim()[0]!);
  expect(count("lane")).toBe(1);
});

test("a lane is deleted when what it stores no longer counts", () => {
  const { ask, govern, add, claim, settle, count, pass } = world();
  const prune = () => ask({ verb: "prune", limit: 10 });
  govern({ rateLimit: [{ max: 9, per: MINUTE, pace: false, unit: null }], sticky: true });
  const { session } = ask({ verb: "join", worker: worker("w"), lease: 10 * MINUTE });
  add(1, "rate");
  settle(claim()[0]!);
  add(1, "sticky");
  settle(claim(session)[0]!);
  prune();
  expect(count("lane")).toBe(2);
  pass(MINUTE);
  prune();
  expect(count("lane")).toBe(1);
  ask({ verb: "leave", session });
  prune();
  expect(count("lane")).toBe(0);
});

test("a queue is as fast as before once a hold has ended", () => {
  const { ask, add, claim, settle, flags, count, pass } = world();
  add(2, "g");
  add(1);
  const [grouped, free] = claim();
  settle(grouped!, HOLD);
  settle(free!, HOLD);
  expect(flags()).toEqual({ lanes: 1, gate: 1 });
  ask({ verb: "prune", limit: 10 });
  expect(flags()).toEqual({ lanes: 1, gate: 1 });
  pass(MINUTE);
  const again = claim();
  expect(again).toHaveLength(2);
  for (const task of again) settle(task);
  ask({ verb: "prune", limit: 10 });
  expect(flags()).toEqual({ lanes: 0, gate: 0 });
  expect(count("gate")).toBe(0);
  settle(claim()[0]!);
  expect(count("lane")).toBe(0);
});

test("a queue whose groups had limits takes the fast path again", () => {
  const { ask, govern, add, claim, settle, flags } = world();
  govern({ concurrency: 2, fair: true });
  add(3, "a");
  add(2, "b");
  const held = claim();
  expect(held).toHaveLength(4);
  govern({});
  ask({ verb: "prune", limit: 10 });
  expect(flags()).toMatchObject({ lanes: 2 });
  for (const task of held) settle(task);
  expect(claim().map((task) => settle(task))).toEqual([{ state: "done" }]);
  ask({ verb: "prune", limit: 10 });
  expect(flags()).toMatchObject({ lanes: 0 });
  expect(add(2, "a").map(({ state }) => state)).toEqual(["ready", "waiting"]);
});

test("a queue that is governed again has forgotten which tasks were in the line before", () => {
  const { ask, govern, add, claim, flags } = world();
  govern({ concurrency: 2 });
  add(1, "g");
  govern({});
  ask({ verb: "prune", limit: 10 });
  expect(flags()).toMatchObject({ lanes: 0 });
  // Only heads count now, so the lane is not updated when its task leaves the line.
  expect(claim()).toHaveLength(1);
  govern({ concurrency: 2, rateLimit: [{ max: 9, per: MINUTE, pace: false, unit: null }] });
  add(1, "g");
  expect(claim()).toHaveLength(1);
});

test("a queue is dropped with its lanes and its gate", () => {
  const { ask, govern, add, claim, settle, count } = world();
  govern({ sticky: true });
  const { session } = ask({ verb: "join", worker: worker("w"), lease: 10 * MINUTE });
  add(2, "a");
  add(1);
  const [grouped, free] = claim(session);
  settle(grouped!);
  settle(free!, HOLD);
  expect([count("lane"), count("gate"), count("ready_sticky")]).toEqual([1, 1, 1]);
  ask({ verb: "drop", queue: QUEUE, limit: 100 });
  expect([count("lane"), count("gate"), count("ready_sticky")]).toEqual([0, 0, 0]);
});
