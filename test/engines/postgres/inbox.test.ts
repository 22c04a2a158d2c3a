import { expect, test } from "vitest";
import type { AddedTask } from "../../../src/core/task/task.ts";
import type { Engine, Op } from "../../../src/engine/engine.ts";
import { raiseFloors } from "../../../src/engines/postgres/line/floors.ts";
import { PostgresStore } from "../../../src/engines/postgres/batch/store.ts";
import { connect, type Ground, untilOneWaits } from "./kit.ts";
import { claimAll, done, named, run, setUp, signalled } from "./verbs.ts";

/** Entries of callers' transactions are found, whatever other transactions do meanwhile. */

function other(data: string) {
  return { queue: "other", data };
}

async function addWithin(place: Ground, engine: Engine, tasks: Op<"add">["tasks"]) {
  const client = await place.client();
  await client.query("BEGIN");
  const added = await engine.executeInTransaction!(client, { verb: "add", tasks });
  const [first] = (added as { ok: AddedTask[] }).ok;
  return { id: first!.id, commit: () => client.query("COMMIT") };
}

test("an inbox entry is found behind a thousand of another transaction, whenever floors are raised", async () => {
  const { place, here } = await setUp();
  const many = await addWithin(
    place,
    here,
    Array.from({ length: 1_500 }, () => other("0")),
  );
  const one = await addWithin(place, here, [named("1")]);
  await many.commit();
  await one.commit();
  await raiseFloors(await connect(place), []);
  // A batch processes a thousand entries.
  for (let i = 0; i < 2; i++) await run(here, { verb: "housekeep" });
  expect((await claimAll(here)).map(({ data }) => data)).toEqual(["1"]);
});

/**
 * Tasks of two queues whose inbox entries are below the floor, which must never happen, so that no batch finds them.
 */
async function overlooked() {
  const set = await setUp();
  const { place, here } = set;
  const mine = await addWithin(place, here, [named("1")]);
  const others = await addWithin(place, here, [other("2")]);
  const link = await connect(place);
  await raiseFloors(link, []);
  await link.exec(`UPDATE dibs.inbox_floor SET open = '{}', since = pg_current_xact_id()`);
  await mine.commit();
  await others.commit();
  expect(await claimAll(here, { queues: ["work", "other"] })).toEqual([]);
  return { ...set, link, id: mine.id };
}

test.each<[verb: string, op: (id: string) => Op, outcome: object]>([
  ["cancel", (id) => ({ verb: "cancel", id }), { state: "cancelled" }],
  ["signal", signalled, { kept: true, state: "ready" }],
  ["drop", () => ({ verb: "drop", queue: "work", limit: 10 }), { removed: 3, more: false }],
])(
  "%s finds a task whose note is not looked for all the same, and others find theirs then",
  async (_, op, outcome) => {
    const { here, there, id } = await overlooked();
    expect(await run(here, op(id))).toEqual(outcome);
    expect(await claimAll(there, { queues: ["other"] })).toMatchObject([{ data: "2" }]);
  },
);

test("a task whose row of its state is missing fails only its caller's batch", async () => {
  const { here, link, id } = await overlooked();
  await link.exec(`DELETE FROM dibs.inbox`);
  const cancelling = here.execute([{ verb: "cancel", id }]);
  const adding = run(here, { verb: "add", tasks: [named("3")] });
  await expect(cancelling).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(await adding).toHaveLength(1);
});

test.each<[what: string, wait: (set: Awaited<ReturnType<typeof setUp>>) => Promise<Waiting>]>([
  [
    "a key",
    async ({ place, here }) => {
      const tasks = [{ ...named("1"), idempotencyKey: "k" }];
      const { commit } = await addWithin(place, here, tasks);
      return { op: { verb: "add", tasks }, commit, outcome: [{ existing: true }] };
    },
  ],
  [
    "a claim",
    async ({ place, here }) => {
      const [{ id }] = (await run(here, { verb: "add", tasks: [named("1")] })) as [AddedTask];
      const client = await place.client();
      const [task] = await claimAll(here);
      await client.query("BEGIN");
      await here.executeInTransaction!(client, done(task!));
      return { op: { verb: "cancel", id }, commit: () => client.query("COMMIT"), outcome: { state: "done" } };
    },
  ],
])("what others commit is seen while a batch waits for %s that an open transaction has", async (_, wait) => {
  const set = await setUp();
  const { place, here, there } = set;
  const { op, commit, outcome } = await wait(set);
  await (await addWithin(place, there, [other("2")])).commit();
  const waiting = run(here, op);
  await untilOneWaits(await place.client(), place.schema);
  await expect.poll(() => claimAll(there, { queues: ["other"] })).toMatchObject([{ data: "2" }]);
  await commit();
  expect(await waiting).toMatchObject(outcome);
});

interface Waiting {
  op: Op;
  commit: () => Promise<unknown>;
  outcome: object;
}

test("waiting claims get the hint of inbox entries that were processed in a transaction of their own", async () => {
  const { place, here, there } = await setUp();
  const tasks = [{ ...named("1"), idempotencyKey: "k" }];
  const { commit } = await addWithin(place, here, tasks);
  await (await addWithin(place, there, [other("2")])).commit();
  const hints: unknown[] = [];
  here.onHint(({ ready }) => hints.push(ready));
  const waiting = run(here, { verb: "add", tasks });
  const client = await place.client();
  await untilOneWaits(client, place.schema);
  const sql = `SELECT 1 FROM ${place.schema}.inbox`;
  await expect.poll(async () => (await client.query(sql)).rowCount).toBe(0);
  await commit();
  await waiting;
  expect(hints).toContainEqual(expect.objectContaining({ other: 1 }));
});

test("a batch has no effect if the connection is lost while inbox entries are processed", async () => {
  const { place, here, there } = await setUp();
  const tasks = [{ ...named("1"), idempotencyKey: "k" }];
  await addWithin(place, here, tasks);
  await (await addWithin(place, there, [other("2")])).commit();
  const link = await connect(place);
  const exec = link.exec.bind(link);
  link.exec = async (sql) => {
    await exec(sql);
    if (sql === "COMMIT") throw Object.assign(new Error("It was lost"), { code: "ECONNRESET" });
  };
  const store = new PostgresStore(link, { session: true, durability: "full" });
  // The error is that of a batch that was not committed, so the batch can be repeated.
  await expect(store.run([{ verb: "add", tasks }])).rejects.toThrow("It was lost");
});
