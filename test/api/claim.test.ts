import { describe, expect, it } from "vitest";
import { openStore, STORES } from "../stores.ts";

describe.each(STORES)("a manual claim on %s", (store) => {
  it("a manual claim is settled once", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<string, number>("hand");
    const task = await queue.add("x", { headers: { type: "letter" } });
    const [claim] = await queue.claim({ worker: "me" });
    expect(claim).toMatchObject({
      id: task.id,
      data: "x",
      attempt: 1,
      fence: expect.any(Number),
      headers: { type: "letter" },
    });
    await claim!.ack(7);
    await expect(claim!.ack(8)).rejects.toMatchObject({ code: "CLAIM_LOST", name: "ClaimLostError" });
    await expect(claim!.extend("1s")).rejects.toMatchObject({ code: "CLAIM_LOST" });
    expect(await task.result()).toBe(7);
    expect(await task.history()).toMatchObject([{ worker: "me", outcome: "done" }]);
  });

  it("a manual claim waits for a task", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("hand");
    const waiting = queue.claim({ wait: "20s" });
    await queue.add("at last");
    expect((await waiting)[0]!.data).toBe("at last");
    expect(await queue.claim({ wait: 1 })).toEqual([]);
  });

  it("a manual claim releases tasks that arrive after its wait was aborted", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("hand");
    const stop = new AbortController();
    const waiting = queue.claim({ wait: "20s", signal: stop.signal });
    stop.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
    await queue.add(1);
    expect(await queue.claim({ wait: "5s" })).toHaveLength(1);
  });

  it("a manual claim can be nacked, rejected and released", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<string>("hand", { elsewhere: 0 });
    await queue.addMany(["fail", "reject", "release"].map((data) => ({ data })));
    const claims = await queue.claim({ max: 3 });
    await claims[0]!.nack(new Error("once more"), { delay: "1h" });
    await claims[1]!.reject("a text");
    await claims[2]!.release();
    expect((await queue.stats()).depth).toMatchObject({ scheduled: 1, dead: 1, ready: 1 });
    expect((await queue.dead.list()).tasks).toMatchObject([{ data: "reject", error: { message: "a text" } }]);
    const [again] = await queue.claim();
    expect(again).toMatchObject({ data: "release", attempt: 1 });
    expect(again!.fence).toBeGreaterThan(claims[2]!.fence);
  });
});
