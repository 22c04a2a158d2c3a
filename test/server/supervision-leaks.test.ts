// Pools, alerts and runs: what tokens for some of their queues may take and see.

import { expect, test } from "vitest";
import type { Port } from "../../src/core/port.ts";
import type { NewEntry, SuperviseCall } from "../../src/core/supervision.ts";
import { guardPort } from "../../src/server/guard.ts";
import { Grant } from "../../src/server/scopes.ts";
import { forbidden, setUp } from "./guarded.ts";

const CANARY = "canary";

function callOf(queues: string[], more: Partial<SuperviseCall> = {}): SuperviseCall {
  return {
    ...{ kind: "pool", name: "mailers", holder: CANARY, host: CANARY, pid: 7, queues, lease: 60_000 },
    ...{ report: JSON.stringify(CANARY) },
    entries: [{ type: "pool.started", queue: queues[0]!, reasons: [CANARY] }],
    ...more,
  };
}

test("a pool is shown only to tokens that may read all its queues", async () => {
  const { store, openAs } = await setUp();
  await store.supervise(callOf(["mine", "theirs"]));
  const limited = await openAs("read:mine", "work:mine");
  expect(await limited.supervised("pool")).toEqual({ items: [], next: null });
  expect(await limited.decisions("pool", "mailers", 10)).toEqual([]);
  const both = await openAs("read:mine", "read:theirs");
  expect((await both.supervised("pool")).items).toMatchObject([{ queues: ["mine", "theirs"] }]);
  expect(await both.decisions("pool", "mailers", 10)).toHaveLength(1);
});

test("the report of the alerts names all queues, so only tokens that read all queues get it", async () => {
  const { store, openAs } = await setUp();
  const entries = ["mine", "theirs"].map((queue): NewEntry => ({
    type: "alert.raised",
    queue,
    reasons: ["depth"],
  }));
  await store.supervise(callOf(["mine", "theirs"], { kind: "alerts", name: "alerts", entries }));
  const limited = await openAs("read:mine");
  expect(await limited.supervised("alerts")).toEqual({ items: [], next: null });
  expect((await limited.decisions("alerts", "alerts", 10)).map(({ queue }) => queue)).toEqual(["mine"]);
  const all = await openAs("read:*");
  expect((await all.supervised("alerts")).items).toHaveLength(1);
  expect(await all.decisions("alerts", "alerts", 10)).toHaveLength(2);
});

test("a token for some queues cannot take the name of the alerts, which would silence them", async () => {
  const { store, openAs } = await setUp();
  const alerts = callOf(["mine"], { kind: "alerts", name: "alerts", entries: [] });
  await forbidden((await openAs("work:mine")).supervise(alerts), "work:*");
  expect((await store.supervised("alerts")).items).toEqual([]);
  expect((await (await openAs("work:*")).supervise(alerts)).held).toBe(true);
});

test("a token learns nothing about the pool that takes its name at the same moment", async () => {
  const { store } = await setUp();
  const raced: Port = {
    ...store,
    supervised: async (kind, query) => {
      const found = await store.supervised(kind, query);
      await store.supervise(callOf(["theirs"]));
      return found;
    },
    supervise: async (call, options) => {
      await store.supervise(callOf(["theirs"]));
      return store.supervise(call, options);
    },
  };
  const grant = new Grant("limited", ["work:mine"]);
  const limited = guardPort(raced, grant, () => {});
  const mine = { ...callOf(["mine"], { report: "{}", holder: "me", host: "h" }), entries: [] };
  const answer = await limited.supervise(mine).catch((error: unknown) => error);
  expect(answer).toMatchObject({ code: "FORBIDDEN" });
  expect(JSON.stringify(answer)).not.toContain(CANARY);
  expect((await store.supervised("pool")).items).toMatchObject([{ queues: ["theirs"] }]);
});

test("a page of runs does not reveal by its cursor that there are runs that the token may not see", async () => {
  const { store, openAs } = await setUp();
  const stages = [{ name: "a", joins: false }];
  for (const pipeline of ["theirs", "mine"])
    for (let i = 0; i < 3; i++)
      await store.add([{ queue: `${pipeline}/a`, data: "1", run: { pipeline, stages } }]);
  const limited = await openAs("read:mine/*");
  const absent = await limited.runs({ pipeline: "nobodys", limit: 1 });
  expect(await limited.runs({ pipeline: "theirs", limit: 1 })).toEqual(absent);
  const first = await limited.runs({ pipeline: "mine", limit: 2 });
  expect(first.runs).toHaveLength(2);
  const second = await limited.runs({ pipeline: "mine", limit: 2, after: first.next! });
  expect(second).toMatchObject({ runs: [{}], next: null });
});
