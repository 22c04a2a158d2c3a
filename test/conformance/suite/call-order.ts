import { describe, expect, test } from "vitest";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimOne,
  nackWithBackoff,
  namesOf,
  newTask,
  numbered,
  QUEUE,
  type Start,
} from "./kit.ts";

export function callOrder(start: Start): void {
  describe("order of calls without awaiting them", () => {
    test("calls take effect in the order in which they are made", async () => {
      const { port } = await start();
      const calls = [
        port.declare(QUEUE, { maxAttempts: 7 }),
        port.pause(QUEUE, true),
        addNamed(port, ["1", "2"]),
        claim(port),
        port.pause(QUEUE, false),
        claimOne(port),
        port.purge(QUEUE),
        port.stats(QUEUE),
      ] as const;
      const [, , , nothing, , held, purged, stats] = await Promise.all(calls);
      expect(nothing).toEqual([]);
      expect(held).toMatchObject({ data: "1", maxAttempts: 7 });
      expect(purged).toBe(1);
      expect(stats.depth).toMatchObject({ ready: 0, claimed: 1 });
    });

    test("a call sees what earlier calls did", async () => {
      const { port } = await start();
      const adding = addOne(port);
      const before = port.stats(QUEUE);
      const listed = port.list({ queue: QUEUE, state: "ready", limit: 9 });
      await adding;
      expect((await before).depth.ready).toBe(1);
      expect((await listed).tasks).toHaveLength(1);
    });

    test("a nack takes effect in call order, although its delay depends on the policy of the queue", async () => {
      const { port } = await start();
      await addOne(port);
      const failing = nackWithBackoff(port, await claimOne(port));
      const after = await port.stats(QUEUE);
      expect(await failing).toBe("scheduled");
      expect(after.depth).toMatchObject({ claimed: 0, scheduled: 1 });
    });

    test("many calls at once each get their own answer", async () => {
      const { port } = await start();
      const adds = await Promise.all(numbered(3_000).map((data) => addOne(port, { data })));
      expect(new Set(adds.map(({ id }) => id)).size).toBe(3_000);
      expect(adds.map(({ id }) => id).toSorted()).toEqual(adds.map(({ id }) => id));
      const held = (await Promise.all([1, 2, 3].map(() => claim(port, { max: 1_000 })))).flat();
      expect(namesOf(held)).toEqual(numbered(3_000));
      const states = await Promise.all(held.map((each) => ack(port, each)));
      expect(new Set(states)).toEqual(new Set(["done"]));
    });

    test("the ack of one task and the claim of the next can be sent together", async () => {
      const { port } = await start();
      await addOne(port);
      const held = await claimOne(port);
      const acking = ack(port, held, null, [newTask({ data: "next" })]);
      expect((await claimOne(port)).data).toBe("next");
      expect(await acking).toBe("done");
    });
  });
}
