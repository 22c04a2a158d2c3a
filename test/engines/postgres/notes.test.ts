import { expect, test } from "vitest";
import type { AddedTask } from "../../../src/core/task.ts";
import type { Engine, Op } from "../../../src/engine/engine.ts";
import { raiseFloors } from "../../../src/engines/postgres/floors.ts";
import { connect, type Ground } from "./kit.ts";
import { claimAll, named, run, setUp, signalled } from "./verbs.ts";

/** What others' transactions bring is found, whoever is in the way. */

function other(data: string) {
  return { queue: "other", data };
}

async function addWithin(place: Ground, engine: Engine, tasks: Op<"add">["tasks"]) {
  const client = await place.client();
  await client.query("BEGIN");
  const added = await engine.runWithin!(client, { verb: "add", tasks });
  const [first] = (added as { ok: AddedTask[] }).ok;
  return { id: first!.id, commit: () => client.query("COMMIT") };
}

test("a note is found behind more than a thousand of another transaction, whenever floors are raised", async () => {
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
  // A batch takes up a thousand.
  for (let i = 0; i < 2; i++) await run(here, { verb: "tend" });
  expect((await claimAll(here)).map(({ data }) => data)).toEqual(["1"]);
});

/** Tasks of two queues whose notes nobody looks for, as must not be. */
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

test("of a task that is nowhere its caller is told, and nobody else waits", async () => {
  const { here, link, id } = await overlooked();
  await link.exec(`DELETE FROM dibs.inbox`);
  const cancelling = here.run([{ verb: "cancel", id }]);
  const adding = run(here, { verb: "add", tasks: [named("3")] });
  await expect(cancelling).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(await adding).toHaveLength(1);
});
