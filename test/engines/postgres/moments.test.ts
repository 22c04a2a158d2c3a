import { expect, test } from "vitest";
import type { ClaimedTask } from "../../../src/core/task.ts";
import type { ClaimRequest, Engine, Op, VerbName, Verbs } from "../../../src/engine/engine.ts";
import { ground, untilOneWaits } from "./kit.ts";

/** A batch that writes sees the store anew with each statement: what another one does between two of them. */

async function run<V extends VerbName>(engine: Engine, op: Op<V>): Promise<Verbs[V]["out"]> {
  const [outcome] = await engine.run([op]);
  expect(outcome).toHaveProperty("ok");
  return (outcome as { ok: Verbs[V]["out"] }).ok;
}

async function claimAll(engine: Engine, wish: Partial<ClaimRequest> = {}): Promise<ClaimedTask[]> {
  const request = { queues: ["work"], max: 10, worker: "w", lease: 60_000, ...wish };
  return (await run(engine, { verb: "claim", ...request })).tasks;
}

/** Two processes that know a queue, and a client of somebody else's. */
async function setUp() {
  const place = await ground();
  const [here, there, client] = [await place.engine(), await place.engine(), await place.client()];
  for (const engine of [here, there]) await run(engine, { verb: "declare", queue: "work", policy: {} });
  return { place, schema: place.schema, here, there, client };
}

/** A batch that has begun, and comes to `ops` when the client's transaction has ended. */
async function begun({ schema, here, client }: Awaited<ReturnType<typeof setUp>>, ops: Op[]) {
  await run(here, { verb: "add", tasks: [{ queue: "held", data: "0" }] });
  const [{ id, fence }] = (await claimAll(here, { queues: ["held"] })) as [ClaimedTask];
  await client.query("BEGIN");
  await client.query(`SELECT 1 FROM ${schema}.claim FOR UPDATE`);
  const running = here.run([{ verb: "progress", id, fence, value: 0.5, note: null }, ...ops]);
  await untilOneWaits(client, schema);
  return { outcomes: async () => (await running).slice(1) };
}

test("what time brings to queues that were made since the batch began is dealt with", async () => {
  const set = await setUp();
  const { schema, here, there, client } = set;
  const { outcomes } = await begun(set, [{ verb: "tend" }]);
  const tasks = [
    { queue: "due", data: "1", delay: 60_000 },
    { queue: "due", data: "2", delay: 60_000, groupKey: "g" },
    { queue: "late", data: "3", ttl: 60_000 },
    { queue: "lapsed", data: "4" },
  ];
  await run(there, { verb: "add", tasks });
  await claimAll(there, { queues: ["lapsed"] });
  for (const [table, at] of [
    ["scheduled", "due"],
    ["ttl", "expires_at"],
    ["claim", "deadline"],
  ] as const)
    await client.query(`UPDATE ${schema}.${table} SET ${at} = 1`);
  await client.query("COMMIT");
  expect(await outcomes()).toMatchObject([{ ok: { next: expect.any(Number) as number } }]);
  const claimed = await claimAll(here, { queues: ["due", "late", "lapsed"] });
  expect(claimed.map(({ data }) => data)).toEqual(["1", "2", "4"]);
});
