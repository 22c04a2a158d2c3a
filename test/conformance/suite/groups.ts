import { describe, expect, test } from "vitest";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  depths,
  failure,
  HOUR,
  MINUTE,
  nack,
  namesOf,
  newTask,
  numbered,
  QUEUE,
  reject,
  release,
  SAFETY_POLL,
  SECOND,
  type Start,
  stateOf,
  passLong,
} from "./kit.ts";

export function groups(start: Start): void {
  describe("the tasks of a group", () => {
    test("run one at a time, in the order of arrival", async () => {
      const { port } = await start();
      await addNamed(port, numbered(5), { groupKey: "g" });
      const seen: string[] = [];
      for (let count = 0; count < 5; count++) {
        const [held, ...more] = await claim(port, { max: 9 });
        expect(more).toEqual([]);
        seen.push(held!.data as string);
        await ack(port, held!);
      }
      expect(seen).toEqual(numbered(5));
    });

    test("wait behind the one that is claimed", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2", "3"], { groupKey: "g" });
      await claimOne(port);
      expect(await claim(port)).toEqual([]);
      expect(await depths(port)).toEqual({ claimed: 1, waiting: 2 });
    });

    test("hold no other group up, nor tasks without one", async () => {
      const { port } = await start();
      await addNamed(port, ["a1", "a2"], { groupKey: "a" });
      await addNamed(port, ["b1", "b2"], { groupKey: "b" });
      await addNamed(port, ["free1", "free2"]);
      expect(await claimNames(port)).toEqual(["a1", "b1", "free1", "free2"]);
    });

    test("are a group within their queue only", async () => {
      const { port } = await start();
      await port.add([newTask({ queue: "a", groupKey: "g" }), newTask({ queue: "b", groupKey: "g" })]);
      expect(await claim(port, { queues: ["a", "b"], max: 9 })).toHaveLength(2);
    });

    test("keep their order when the head is tried again", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await nack(port, await claimOne(port));
      expect(namesOf(await claim(port, { max: 9 }))).toEqual(["1"]);
    });

    test("wait while the head waits for its next attempt", async () => {
      const { port, clock } = await start();
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await nack(port, await claimOne(port), HOUR);
      expect(await claim(port)).toEqual([]);
      expect(await depths(port)).toEqual({ scheduled: 1, waiting: 1 });
      await passLong(clock, HOUR);
      const head = await claimOne(port);
      expect(head.data).toBe("1");
      await ack(port, head);
      expect(await claimNames(port)).toEqual(["2"]);
    });

    test("keep their order when the head is released, or its lease is lost", async () => {
      const { port, clock } = await start();
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await release(port, await claimOne(port));
      expect((await claimOne(port)).data).toBe("1");
      await clock.advance(30 * SECOND);
      expect(await claimNames(port)).toEqual(["1"]);
    });

    test("take part in the queue's order by their arrival", async () => {
      const { port } = await start();
      await addNamed(port, ["g1", "g2"], { groupKey: "g" });
      await addNamed(port, ["free"]);
      await ack(port, await claimOne(port));
      expect(await claimNames(port)).toEqual(["g2", "free"]);
    });
  });

  describe("a group is freed", () => {
    test("by the death of its head", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2", "3"], { groupKey: "g", maxAttempts: 1 });
      await nack(port, await claimOne(port));
      await reject(port, await claimOne(port));
      expect(await claimNames(port)).toEqual(["3"]);
    });

    test("by a head that is cancelled while it is ready, or scheduled again", async () => {
      const { port } = await start();
      const [first, second] = await addNamed(port, ["1", "2", "3"], { groupKey: "g" });
      await port.cancel(first!);
      await nack(port, await claimOne(port), HOUR);
      await port.cancel(second!);
      expect(await claimNames(port)).toEqual(["3"]);
    });

    test("by a head that expires", async () => {
      const { port, clock } = await start();
      await addOne(port, { groupKey: "g", ttl: SECOND });
      await addOne(port, { groupKey: "g", data: "2" });
      await clock.advance(SECOND);
      expect(await claimNames(port)).toEqual(["2"]);
    });

    test("by a claim that finds its head expired", async () => {
      const { port, clock } = await start();
      await addOne(port, { groupKey: "g", ttl: MINUTE });
      await addOne(port, { groupKey: "g", data: "2" });
      clock.sleep(HOUR);
      await clock.advance(SAFETY_POLL);
      expect(await claimNames(port)).toEqual(["2"]);
    });

    test("not by one that waits in it", async () => {
      const { port } = await start();
      const [, second] = await addNamed(port, ["1", "2", "3"], { groupKey: "g" });
      const head = await claimOne(port);
      await port.cancel(second!);
      expect(await claim(port)).toEqual([]);
      await ack(port, head);
      expect(await claimNames(port)).toEqual(["3"]);
    });

    test("for good when it is empty", async () => {
      const { port } = await start();
      await addNamed(port, ["1"], { groupKey: "g" });
      await ack(port, await claimOne(port));
      expect((await addOne(port, { groupKey: "g" })).state).toBe("ready");
    });
  });

  describe("a group is joined", () => {
    test("by a delayed task when it is due, behind those that are there by then", async () => {
      const { port, clock } = await start();
      await addOne(port, { groupKey: "g", data: "delayed", delay: MINUTE });
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      const head = await claimOne(port);
      expect(head.data).toBe("1");
      await clock.advance(20 * SECOND);
      await port.extend(head, HOUR);
      await clock.advance(MINUTE);
      await addNamed(port, ["3"], { groupKey: "g" });
      const seen: string[] = [];
      await ack(port, head);
      for (let count = 0; count < 3; count++) {
        const held = await claimOne(port);
        seen.push(held.data as string);
        await ack(port, held);
      }
      expect(seen).toEqual(["2", "delayed", "3"]);
    });

    test("by no task that is not due: it holds nobody up", async () => {
      const { port } = await start();
      await addOne(port, { groupKey: "g", delay: HOUR });
      await addNamed(port, ["1"], { groupKey: "g" });
      expect(await claimNames(port)).toEqual(["1"]);
    });

    test("at its tail by what is redriven", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2", "3"], { groupKey: "g" });
      await reject(port, await claimOne(port));
      await port.redrive(QUEUE, {}, 0);
      const seen: string[] = [];
      for (let count = 0; count < 3; count++) {
        const held = await claimOne(port);
        seen.push(held.data as string);
        await ack(port, held);
      }
      expect(seen).toEqual(["2", "3", "1"]);
    });

    test("by what is redriven into an empty one", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { groupKey: "g" });
      await reject(port, await claimOne(port));
      await port.redrive(QUEUE, {}, 0);
      expect(await stateOf(port, id)).toBe("ready");
      expect((await addOne(port, { groupKey: "g" })).state).toBe("waiting");
    });
  });

  describe("priority", () => {
    test("orders groups by their heads", async () => {
      const { port } = await start();
      await addNamed(port, ["a1"], { groupKey: "a" });
      await addNamed(port, ["b1"], { groupKey: "b", priority: 5 });
      await addNamed(port, ["free"], { priority: 3 });
      expect(await claimNames(port)).toEqual(["b1", "free", "a1"]);
    });

    test("changes nothing inside a group", async () => {
      const { port } = await start();
      await addNamed(port, ["1"], { groupKey: "g" });
      await addNamed(port, ["2"], { groupKey: "g", priority: 1_000 });
      const head = await claimOne(port);
      expect(head.data).toBe("1");
      await ack(port, head);
      expect(await claimNames(port)).toEqual(["2"]);
    });
  });

  test("many groups are served side by side, each in order", async () => {
    const { port } = await start();
    const keys = numbered(20, "g");
    await port.add(numbered(200).map((data, index) => newTask({ data, groupKey: keys[index % 20]! })));
    const seen = new Map<string, number[]>(keys.map((key) => [key, []]));
    for (let round = 0; round < 10; round++) {
      const held = await claim(port, { max: 1_000 });
      expect(held).toHaveLength(20);
      for (const each of held) seen.get(each.groupKey!)!.push(Number(each.data));
      // Some fail on the way: that changes nothing about the order.
      const [failing, ...others] = held;
      await nack(port, failing!, 0, failure());
      await Promise.all(others.map((each) => ack(port, each)));
      await ack(port, await claimOne(port));
    }
    for (const [key, order] of seen) {
      const first = Number(key.slice(1));
      expect(order).toEqual(numbered(10).map((_, index) => first + index * 20));
    }
  });
}
