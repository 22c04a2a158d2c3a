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
  describe("order within a group", () => {
    test("tasks of a group run one at a time, in the order of arrival", async () => {
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

    test("tasks of a group wait behind the claimed one", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2", "3"], { groupKey: "g" });
      await claimOne(port);
      expect(await claim(port)).toEqual([]);
      expect(await depths(port)).toEqual({ claimed: 1, waiting: 2 });
    });

    test("a group blocks neither other groups nor tasks without a group", async () => {
      const { port } = await start();
      await addNamed(port, ["a1", "a2"], { groupKey: "a" });
      await addNamed(port, ["b1", "b2"], { groupKey: "b" });
      await addNamed(port, ["free1", "free2"]);
      expect(await claimNames(port)).toEqual(["a1", "b1", "free1", "free2"]);
    });

    test("a group exists only within its queue", async () => {
      const { port } = await start();
      await port.add([newTask({ queue: "a", groupKey: "g" }), newTask({ queue: "b", groupKey: "g" })]);
      expect(await claim(port, { queues: ["a", "b"], max: 9 })).toHaveLength(2);
    });

    test("a group keeps its order when its head is retried", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await nack(port, await claimOne(port));
      expect(namesOf(await claim(port, { max: 9 }))).toEqual(["1"]);
    });

    test("a group waits while its head waits for its next attempt", async () => {
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

    test("a group keeps its order when its head is released or loses its lease", async () => {
      const { port, clock } = await start();
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await release(port, await claimOne(port));
      expect((await claimOne(port)).data).toBe("1");
      await clock.advance(30 * SECOND);
      expect(await claimNames(port)).toEqual(["1"]);
    });

    test("tasks of groups take their position in the queue by arrival", async () => {
      const { port } = await start();
      await addNamed(port, ["g1", "g2"], { groupKey: "g" });
      await addNamed(port, ["free"]);
      await ack(port, await claimOne(port));
      expect(await claimNames(port)).toEqual(["g2", "free"]);
    });
  });

  describe("what frees a group", () => {
    test("the death of its head frees a group", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2", "3"], { groupKey: "g", maxAttempts: 1 });
      await nack(port, await claimOne(port));
      await reject(port, await claimOne(port));
      expect(await claimNames(port)).toEqual(["3"]);
    });

    test("cancelling a head that is ready or scheduled again frees its group", async () => {
      const { port } = await start();
      const [first, second] = await addNamed(port, ["1", "2", "3"], { groupKey: "g" });
      await port.cancel(first!);
      await nack(port, await claimOne(port), HOUR);
      await port.cancel(second!);
      expect(await claimNames(port)).toEqual(["3"]);
    });

    test("the expiry of its head frees a group", async () => {
      const { port, clock } = await start();
      await addOne(port, { groupKey: "g", ttl: SECOND });
      await addOne(port, { groupKey: "g", data: "2" });
      await clock.advance(SECOND);
      expect(await claimNames(port)).toEqual(["2"]);
    });

    test("a claim that finds the head expired frees the group", async () => {
      const { port, clock } = await start();
      await addOne(port, { groupKey: "g", ttl: MINUTE });
      await addOne(port, { groupKey: "g", data: "2" });
      clock.sleep(HOUR);
      await clock.advance(SAFETY_POLL);
      expect(await claimNames(port)).toEqual(["2"]);
    });

    test("the end of a waiting task does not free its group", async () => {
      const { port } = await start();
      const [, second] = await addNamed(port, ["1", "2", "3"], { groupKey: "g" });
      const head = await claimOne(port);
      await port.cancel(second!);
      expect(await claim(port)).toEqual([]);
      await ack(port, head);
      expect(await claimNames(port)).toEqual(["3"]);
    });

    test("a group that became empty is free", async () => {
      const { port } = await start();
      await addNamed(port, ["1"], { groupKey: "g" });
      await ack(port, await claimOne(port));
      expect((await addOne(port, { groupKey: "g" })).state).toBe("ready");
    });
  });

  describe("joining a group", () => {
    test("a delayed task joins its group when it is due, behind the tasks that are there", async () => {
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

    test("a task that is not due does not block its group", async () => {
      const { port } = await start();
      await addOne(port, { groupKey: "g", delay: HOUR });
      await addNamed(port, ["1"], { groupKey: "g" });
      expect(await claimNames(port)).toEqual(["1"]);
    });

    test("a redriven task joins the end of its group", async () => {
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

    test("a redriven task joins an empty group as its head", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { groupKey: "g" });
      await reject(port, await claimOne(port));
      await port.redrive(QUEUE, {}, 0);
      expect(await stateOf(port, id)).toBe("ready");
      expect((await addOne(port, { groupKey: "g" })).state).toBe("waiting");
    });
  });

  describe("priority and groups", () => {
    test("groups are ordered by the priority of their heads", async () => {
      const { port } = await start();
      await addNamed(port, ["a1"], { groupKey: "a" });
      await addNamed(port, ["b1"], { groupKey: "b", priority: 5 });
      await addNamed(port, ["free"], { priority: 3 });
      expect(await claimNames(port)).toEqual(["b1", "free", "a1"]);
    });

    test("priority does not change the order inside a group", async () => {
      const { port } = await start();
      await addNamed(port, ["1"], { groupKey: "g" });
      await addNamed(port, ["2"], { groupKey: "g", priority: 1_000 });
      const head = await claimOne(port);
      expect(head.data).toBe("1");
      await ack(port, head);
      expect(await claimNames(port)).toEqual(["2"]);
    });
  });

  test("many groups are served in parallel, each in order", async () => {
    const { port } = await start();
    const keys = numbered(20, "g");
    await port.add(numbered(200).map((data, index) => newTask({ data, groupKey: keys[index % 20]! })));
    const seen = new Map<string, number[]>(keys.map((key) => [key, []]));
    for (let round = 0; round < 10; round++) {
      const held = await claim(port, { max: 1_000 });
      expect(held).toHaveLength(20);
      for (const each of held) seen.get(each.groupKey!)!.push(Number(each.data));
      // Some fail once: that must not change the order.
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
