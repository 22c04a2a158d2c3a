import { expect, test } from "vitest";
import type { Engine, Op } from "../../../src/engine/engine.ts";
import { pauseIn, untilOneWaits } from "./kit.ts";
import { claimAll, done, joinAs, named, run, setUp } from "./verbs.ts";

/** Sessions that end or change while a claim is in progress. */

test("a session keeps claims of a longer lease, even if one is not committed at its heartbeat", async () => {
  const { place, here, there } = await setUp();
  const { schema } = place;
  const client = await place.client();
  const rateLimit = [{ max: 100, per: 3_600_000, unit: null, pace: false }];
  await run(here, { verb: "declare", queue: "work", policy: { rateLimit, lease: 600_000 } });
  await run(here, { verb: "add", tasks: [named("1"), named("2")] });
  const session = await joinAs(here, "w");
  const claim: Op<"claim"> = { verb: "claim", queues: ["work"], max: 1, worker: "w", session };
  for (const task of (await run(here, claim)).tasks) await run(here, done(task));
  // The next claim shares a commit with an add that waits for a key of another transaction.
  const add: Op<"add"> = { verb: "add", tasks: [{ queue: "other", data: "1", idempotencyKey: "k" }] };
  await client.query("BEGIN");
  await here.executeInTransaction!(client, add);
  const claiming = here.execute([claim, add]);
  await untilOneWaits(client, schema);
  await run(there, { verb: "heartbeat", sessions: [session] });
  await client.query("ROLLBACK");
  expect((await claiming)[0]).toMatchObject({ ok: { tasks: [{ data: "2" }] } });
  expect((await client.query(`SELECT mixed FROM ${schema}.session`)).rows).toEqual([{ mixed: true }]);
  // The session is forgotten when it has ended.
  await run(here, { verb: "reconcile", session, fences: [] });
  await run(there, { verb: "heartbeat", sessions: [session] });
  expect((await client.query(`SELECT mixed FROM ${schema}.session`)).rows).toEqual([{ mixed: false }]);
});

const BATCHES: [what: string, before: (engine: Engine) => Promise<Op[]>][] = [
  ["alone in its batch", async () => []],
  ["behind another operation", async () => [{ verb: "add", tasks: [{ queue: "other", data: "1" }] }]],
];

test.each(BATCHES)(
  "other workers get hints of tasks that a claim found while its session ended, if the claim is %s",
  async (_, before) => {
    const { place, here, there } = await setUp();
    const session = await joinAs(here, "w");
    await run(here, { verb: "add", tasks: [named("1"), named("2")] });
    const first = await before(here);
    const pause = await pauseIn(place, "WITH calm");
    const claim: Op<"claim"> = { verb: "claim", queues: ["work"], max: 2, worker: "w", session };
    const claiming = here.execute([...first, claim]);
    await pause.reached();
    await run(there, { verb: "leave", session });
    const hints: unknown[] = [];
    const told = new Promise<void>((resolve) =>
      there.onHint(({ ready }) => {
        hints.push(ready?.["work"]);
        if (ready?.["work"] !== undefined) resolve();
      }),
    );
    await pause.continueRun();
    expect((await claiming).at(-1)).toMatchObject({ refused: { code: "CLAIM_LOST" } });
    await told;
    expect(hints).toContain(2);
    expect(await claimAll(there)).toHaveLength(2);
  },
);
