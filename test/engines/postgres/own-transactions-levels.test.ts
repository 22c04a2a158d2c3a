import type { Client } from "pg";
import { describe, expect, test } from "vitest";
import { LIBRARIES } from "../../postgres/libraries.ts";
import { ground, untilOneWaits } from "./kit.ts";

/** Callers' transactions whose snapshot is that of their first statement. */

async function setUp(level: string) {
  const place = await ground();
  const dibs = await place.open();
  const queue = dibs.queue<string, string>("work");
  const client = await place.client();
  await queue.add("first");
  const [held] = await queue.claim();
  await held!.ack();
  /** From here on the transaction sees this snapshot. */
  const begin = async (tx: Client = client): Promise<Client> => {
    await tx.query(`BEGIN ISOLATION LEVEL ${level}`);
    await tx.query(`SELECT 1 FROM pg_class LIMIT 1`);
    return tx;
  };
  const claimOne = async () => (await queue.claim({ max: 1 }))[0]!;
  return { place, dibs, queue, client, begin, claimOne };
}

const tooOld = (words: string) => ({
  code: "UNAVAILABLE",
  retryable: true,
  message: expect.stringMatching(new RegExp(`as it was at its first statement.*${words}.*run it again`, "s")),
});
const overtaken = {
  code: "UNAVAILABLE",
  retryable: true,
  message: expect.stringMatching(/could not serialize.*run it again/s),
  cause: expect.objectContaining({ code: "40001" }),
};

describe.each(["REPEATABLE READ", "SERIALIZABLE"])("a caller's transaction at %s", (level) => {
  test("a caller's transaction adds tasks, also to queues that are newer than its snapshot", async () => {
    const { queue, dibs, begin } = await setUp(level);
    const tx = await begin();
    await queue.add("2", { tx });
    await dibs.queue<string>("new").add("3", { tx, groupKey: "g" });
    await tx.query("COMMIT");
    expect((await queue.claim({ max: 9 })).map(({ data }) => data)).toEqual(["2"]);
    expect((await dibs.queue("new").claim({ max: 9 })).map(({ data }) => data)).toEqual(["3"]);
  });

  test("a caller's transaction publishes to all subscriptions, also to those made after it began", async () => {
    const { dibs, begin } = await setUp(level);
    const tx = await begin();
    const topic = dibs.topic<string>("order.placed");
    const group = topic.subscription("group");
    await group.ready;
    const options = { tx, idempotencyKey: "k" };
    expect(await topic.publish("x", options)).toMatchObject({ reached: 1 });
    expect(await topic.publish("x", options)).toMatchObject({ reached: 1 });
    await tx.query("COMMIT");
    expect((await group.claim({ max: 9 })).map(({ data }) => data)).toEqual(["x"]);
  });

  test("a caller's transaction takes a free idempotency key once", async () => {
    const { queue, begin } = await setUp(level);
    const tx = await begin();
    const one = await queue.add("1", { tx, idempotencyKey: "k" });
    const two = await queue.add("2", { tx, idempotencyKey: "k" });
    expect([one.existing, two.existing, two.id]).toEqual([false, true, one.id]);
    await tx.query("COMMIT");
    expect((await queue.claim({ max: 9 })).map(({ data }) => data)).toEqual(["1"]);
  });

  test("a caller's transaction finds the task that has a key, also if it was added after the transaction began", async () => {
    const { queue, begin } = await setUp(level);
    const before = await queue.add("1", { idempotencyKey: "before" });
    const tx = await begin();
    const since = await queue.add("2", { idempotencyKey: "since" });
    for (const [key, { id }] of Object.entries({ before, since })) {
      expect(await queue.add("3", { tx, idempotencyKey: key })).toMatchObject({ id, existing: true });
    }
    await queue.add("4", { tx });
    await tx.query("COMMIT");
    expect((await queue.claim({ max: 9 })).map(({ data }) => data)).toEqual(["1", "2", "4"]);
  });

  test("a caller's transaction must be retried if its key is taken or freed by another one after it began", async () => {
    const { place, queue, begin } = await setUp(level);
    const other = await place.client();
    await other.query("BEGIN");
    await queue.add("1", { tx: other, idempotencyKey: "k" });
    const tx = await begin();
    const adding = queue.add("2", { tx, idempotencyKey: "k" });
    adding.catch(() => {});
    await untilOneWaits(await place.client(), place.schema);
    await other.query("COMMIT");
    await expect(adding).rejects.toMatchObject(overtaken);
    await tx.query("ROLLBACK");

    await begin();
    await queue.purge();
    await expect(queue.add("3", { tx, idempotencyKey: "k" })).rejects.toMatchObject(overtaken);
    await tx.query("ROLLBACK");
    await begin();
    expect(await queue.add("4", { tx, idempotencyKey: "k" })).toMatchObject({ existing: false });
    await tx.query("COMMIT");
  });

  test("a caller's transaction acks a claim that is older than it, and frees the group and adds the claim's tasks", async () => {
    const { dibs, queue, begin, claimOne } = await setUp(level);
    const task = await queue.add("1", { groupKey: "g", idempotencyKey: "k" });
    await queue.add("2", { groupKey: "g" });
    const claim = await claimOne();
    const tx = await begin();
    await claim.add(dibs.queue("other"), "3");
    await claim.ack("r", { tx });
    await expect(claim.ack("again", { tx })).rejects.toMatchObject({ code: "CLAIM_LOST" });
    await tx.query("COMMIT");
    expect(await task.result()).toBe("r");
    expect((await claimOne()).data).toBe("2");
    expect((await dibs.queue("other").stats()).depth.ready).toBe(1);
  });

  test("a caller's transaction refuses to ack a claim that is newer than it, and the claim stays valid", async () => {
    const { queue, begin, claimOne } = await setUp(level);
    await queue.add("1");
    const tx = await begin();
    const claim = await claimOne();
    await expect(claim.ack("r", { tx })).rejects.toMatchObject(tooOld("was claimed"));
    await tx.query("ROLLBACK");
    await begin();
    await claim.ack("r", { tx });
    await tx.query("COMMIT");
    expect((await queue.stats()).depth).toMatchObject({ claimed: 0, done: 2 });
  });

  test("a caller's transaction refuses to ack a claim that was changed after the transaction began", async () => {
    const { queue, begin, claimOne } = await setUp(level);
    const task = await queue.add("1", { idempotencyKey: "k" });
    const claim = await claimOne();
    const tx = await begin();
    await claim.progress(0.5);
    await expect(claim.ack("r", { tx })).rejects.toMatchObject(overtaken);
    await tx.query("ROLLBACK");
    await begin();
    await task.signal("go");
    await expect(claim.ack("r", { tx })).rejects.toMatchObject(tooOld("were kept for task"));
    await tx.query("ROLLBACK");
    await begin();
    await claim.ack("r", { tx });
    await tx.query("COMMIT");
    expect((await queue.stats()).depth).toMatchObject({ claimed: 0, done: 2 });
  });

  test("a caller's transaction gets CLAIM_LOST for a lost claim, and continues", async () => {
    const { queue, begin, claimOne } = await setUp(level);
    const task = await queue.add("1");
    const claim = await claimOne();
    const tx = await begin();
    await claim.ack("mine");
    await expect(claim.ack("r", { tx })).rejects.toMatchObject({ code: "CLAIM_LOST" });
    await queue.add("2", { tx });
    await tx.query("COMMIT");
    expect(await task.result()).toBe("mine");
    expect((await claimOne()).data).toBe("2");
  });
});

test.each(Object.entries(LIBRARIES))(
  "what a transaction meets of others is known with %s",
  async (_, begin) => {
    const { place, queue, claimOne } = await setUp("REPEATABLE READ");
    await queue.add("1");
    const claim = await claimOne();
    const tx = await begin(place.url);
    await tx.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", []);
    await tx.query("SELECT 1 AS one", []);
    await claim.progress(0.5);
    await expect(claim.ack("r", { tx })).rejects.toMatchObject({ ...overtaken, cause: expect.anything() });
    await tx.rollback();
  },
);
