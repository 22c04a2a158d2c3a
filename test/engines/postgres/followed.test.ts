import { expect, test } from "vitest";
import type { Op } from "../../../src/engine/engine.ts";
import { PostgresStore } from "../../../src/engines/postgres/store.ts";
import { connect, ground } from "./kit.ts";

/** Batches on one connection: the next one is sent behind one whose commit is under way. */

async function setUp() {
  const place = await ground();
  await place.engine();
  const link = await connect(place);
  const store = new PostgresStore(link, { session: true, durability: "full" });
  return { place, link, store };
}

function add(data: string): Op<"add"> {
  return { verb: "add", tasks: [{ queue: "work", data }] };
}

test("none is sent behind a claim that is refused, while something that it asked has not been answered", async () => {
  const { link, store } = await setUp();
  const rateLimit = [{ max: 5, per: 3_600_000, unit: null, pace: false }];
  await store.run([{ verb: "declare", queue: "work", policy: { rateLimit } }, add("1")], null);
  await store.run([{ verb: "tend" }], null);
  const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const query = link.query.bind(link);
  link.query = async (sql, values) => {
    const isGate = sql.includes("SELECT meter, held_until, wake_at, reviewed");
    if (isGate) asked.resolve();
    const answered = await query(sql, values);
    if (isGate) await answer.promise;
    return answered;
  };
  const course: string[] = [];
  const claim: Op<"claim"> = { verb: "claim", queues: ["work"], max: 1, worker: "w", session: 999_999 };
  const claiming = store.run([claim], null, { onSent: () => course.push("followed") });
  await asked.promise;
  // By then it has been told that there is no such session.
  for (let i = 0; i < 2; i++) await link.exec("SELECT 1");
  course.push("answered");
  answer.resolve();
  expect((await claiming).outcomes).toMatchObject([{ refused: { code: "CLAIM_LOST" } }]);
  expect(course).toEqual(["answered", "followed"]);
});
