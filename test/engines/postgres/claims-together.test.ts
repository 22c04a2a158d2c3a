import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Engine, Op } from "../../../src/engine/engine.ts";
import { claimAll, done, failed, heldBy, joinAs, named, run, setUp } from "./verbs.ts";

const WORKERS = ["first", "second", "third"];

/** Claims of three workers, in this order. */
async function prepare() {
  const { place, here, there } = await setUp();
  const claims: Op<"claim">[] = [];
  for (const worker of WORKERS)
    claims.push({
      verb: "claim",
      ...{ queues: ["work"], max: 1, worker, session: await joinAs(here, worker) },
    });
  /** What each claim of one batch got. */
  const claim = async (ops = claims): Promise<unknown[]> => {
    const outcomes = await here.execute(ops);
    return outcomes.map((each) => ("ok" in each ? each.ok.tasks[0]?.data : each.refused.code));
  };
  return { place, here, there, claims, claim };
}

async function addTo(engine: Engine, ...data: string[]): Promise<void> {
  await run(engine, { verb: "add", tasks: data.map((each) => named(each)) });
}

test("claims of one batch are served in their order", async () => {
  const { here, claim } = await prepare();
  await addTo(here, "1", "2");
  expect(await claim()).toEqual(["1", "2", undefined]);
});

test("the first claim of a batch is served first, even if a queue has changed", async () => {
  const { there, claim } = await prepare();
  await run(there, { verb: "add", tasks: [named("1"), { queue: "new", data: "0" }] });
  expect(await claim()).toEqual(["1", undefined, undefined]);
});

test("the first claim of a batch is served first, even if a caller's transaction added the task", async () => {
  const { place, there, claim } = await prepare();
  const client = await place.client();
  await client.query("BEGIN");
  await there.executeInTransaction!(client, { verb: "add", tasks: [named("1")] });
  await client.query("COMMIT");
  expect(await claim()).toEqual(["1", undefined, undefined]);
});

test("the first claim of a batch is served first, even if something is due", async () => {
  const { here, claim } = await prepare();
  await run(here, { verb: "add", tasks: [{ ...named("1"), delay: 1 }, named("2")] });
  await sleep(20);
  expect(await claim()).toEqual(["1", "2", undefined]);
});

test("a claim of a worker that failed a task leaves it to the next claim of the batch", async () => {
  const { here, claims, claim } = await prepare();
  await addTo(here, "1");
  const [task] = await claimAll(here, claims[0]);
  await run(here, failed(task!));
  expect(await claim()).toEqual([undefined, "1", undefined]);
});

test("a claim whose session has ended is refused, and the others of its batch are served", async () => {
  const { here, claims, claim } = await prepare();
  await run(here, { verb: "leave", session: claims[1]!.session! });
  await addTo(here, "1", "2");
  expect(await claim()).toEqual(["1", "CLAIM_LOST", "2"]);
});

test("a claim on the general path, and one that is repeated, are served in order", async () => {
  const { here, claims, claim } = await prepare();
  const [first, second, third] = claims;
  await addTo(here, "1", "2", "3", "4");
  const unusual: Op<"claim"> = { ...second!, queues: ["none", "work"] };
  expect(await claim([first!, unusual, third!, third!])).toEqual(["1", "2", "3", "4"]);
});

test("claims find tasks that the same batch released before", async () => {
  const { here, claims } = await prepare();
  await addTo(here, "1", "2");
  const [one, two] = await claimAll(here);
  const release: Op<"settle"> = {
    verb: "settle",
    ...heldBy(two!),
    settlement: { kind: "release", started: false },
  };
  const outcomes = await here.execute([done(one!), release, ...claims]);
  expect(outcomes.slice(2)).toMatchObject([
    { ok: { tasks: [{ data: "2" }] } },
    { ok: { tasks: [] } },
    { ok: { tasks: [] } },
  ]);
  const { depth } = await run(here, { verb: "stats", queue: "work" });
  expect(depth).toMatchObject({ ready: 0, claimed: 1 });
});
