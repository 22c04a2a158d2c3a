import { describe, expect, it } from "vitest";
import { ground } from "./kit.ts";

const MANY = 200;

/** Manual claims of all tasks at once. */
async function claimAll(
  dibs: Awaited<ReturnType<Awaited<ReturnType<typeof ground>>["open"]>>,
  count: number,
) {
  const claims = await dibs.queue("work").claim({ max: count });
  expect(claims).toHaveLength(count);
  return claims;
}

describe("hundreds of successes in one batch", () => {
  it("hundreds of successes are visible to later reads", async () => {
    const { open } = await ground();
    const dibs = await open();
    const queue = dibs.queue("work");
    await queue.addMany(Array.from({ length: MANY }, (_, data) => ({ data })));
    const claims = await claimAll(dibs, MANY);
    const acks = claims.map((claim) => claim.ack("fine"));
    const { depth } = await queue.stats();
    expect(depth).toMatchObject({ claimed: 0, done: MANY });
    await Promise.all(acks);
  });

  it("hundreds of successes keep their order with other calls", async () => {
    const { open } = await ground();
    const dibs = await open();
    const queue = dibs.queue("work");
    const tasks = await queue.addMany(Array.from({ length: MANY }, (_, data) => ({ data })));
    const claims = await claimAll(dibs, MANY);
    const cancelledBefore = tasks[0]!.cancel();
    const acks = claims.map((claim) => claim.ack());
    const cancelledAfter = tasks[1]!.cancel();
    await Promise.all([cancelledBefore, cancelledAfter, ...acks]);
    expect((await tasks[0]!.info()).state).toBe("cancelled");
    expect((await tasks[1]!.info()).state).toBe("done");
  });

  it("hundreds of successes free their groups and keep their keys", async () => {
    const { open } = await ground();
    const dibs = await open();
    const queue = dibs.queue("work");
    const groups = Array.from({ length: MANY }, (_, i) => `g${i}`);
    await queue.addMany(groups.map((groupKey, data) => ({ data, groupKey, idempotencyKey: `k${data}` })));
    await queue.addMany(groups.map((groupKey, data) => ({ data: MANY + data, groupKey })));
    for (const claim of await claimAll(dibs, MANY)) void claim.ack();
    await Promise.all((await claimAll(dibs, MANY)).map((claim) => claim.ack()));
    expect((await queue.stats()).depth).toMatchObject({ waiting: 0, claimed: 0, done: 2 * MANY });
    expect((await queue.add(0, { idempotencyKey: "k7" })).existing).toBe(true);
  });

  it("lost claims among hundreds of successes are refused one by one", async () => {
    const { open } = await ground();
    const [dibs, other] = [await open(), await open()];
    const queue = dibs.queue("work");
    await queue.addMany(Array.from({ length: MANY }, (_, data) => ({ data })));
    const claims = await claimAll(dibs, MANY);
    await claims[3]!.release();
    const [again] = await other.queue("work").claim();
    const settled = await Promise.allSettled(
      claims.map((claim, i) => (i === 3 ? Promise.reject(new Error("released")) : claim.ack())),
    );
    expect(settled.filter(({ status }) => status === "rejected")).toHaveLength(1);
    await again!.ack();
    expect((await queue.stats()).depth).toMatchObject({ claimed: 0, done: MANY });
  });
});

describe("a statement that is sent ahead", () => {
  it("a claim sent ahead takes nothing from a queue that another process has paused", async () => {
    const { open } = await ground();
    const [dibs, other] = [await open(), await open()];
    await dibs.queue("work").addMany([{ data: 1 }, { data: 2 }]);
    const [first] = await dibs.queue("work").claim();
    await other.queue("work").pause();
    expect(await dibs.queue("work").claim()).toHaveLength(0);
    await other.queue("work").resume();
    expect(await dibs.queue("work").claim()).toHaveLength(1);
    await first!.ack();
  });

  it("a claim sent ahead finds a task that a caller's transaction has just added", async () => {
    const { open, client } = await ground();
    const dibs = await open({ listen: false });
    const queue = dibs.queue("work");
    await queue.add(0);
    await (await queue.claim())[0]!.ack();
    const own = await client();
    await own.query("BEGIN");
    await queue.add(1, { tx: own });
    await own.query("COMMIT");
    expect(await queue.claim()).toHaveLength(1);
  });
});
