import { describe, expect, test } from "vitest";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimOne,
  HOUR,
  joinWorker,
  makeDead,
  MINUTE,
  nack,
  newTask,
  numbered,
  passLong,
  QUEUE,
  release,
  SAFETY_POLL,
  SECOND,
  type Start,
} from "./kit.ts";

const NONE = {
  ...{ ready: 0, waiting: 0, scheduled: 0, claimed: 0, parked: 0, verifying: 0 },
  ...{ done: 0, dead: 0, cancelled: 0, expired: 0 },
};

export function stats(start: Start): void {
  describe("stats of a queue", () => {
    test("stats of a queue that does not exist are all zero", async () => {
      const { port } = await start();
      expect(await port.stats(QUEUE)).toEqual({
        queue: QUEUE,
        exists: false,
        paused: false,
        depth: NONE,
        oldestAge: null,
        rates: { windowMs: MINUTE, addedPerSecond: 0, donePerSecond: 0, failedPerSecond: 0 },
        failureRate: null,
        serviceTime: null,
        waitTime: null,
        serviceTimes: null,
        workers: 0,
        heldBack: null,
      });
    });

    test("stats say whether the queue exists: from its first task or declaration until it is deleted", async () => {
      const { port } = await start();
      await addOne(port);
      await port.declare("declared", {});
      expect([(await port.stats(QUEUE)).exists, (await port.stats("declared")).exists]).toEqual([true, true]);
      await port.drop(QUEUE);
      expect((await port.stats(QUEUE)).exists).toBe(false);
    });

    test("stats count tasks by state", async () => {
      const { port, clock } = await start();
      await addOne(port, { ttl: 1 });
      await clock.advance(SAFETY_POLL);
      await makeDead(port);
      await addOne(port);
      await ack(port, await claimOne(port));
      await port.cancel((await addOne(port)).id);
      await addOne(port, { delay: HOUR });
      await addNamed(port, numbered(3), { groupKey: "g", priority: 1 });
      await claimOne(port);
      await addNamed(port, numbered(4));
      const depth = {
        ready: 4,
        waiting: 2,
        scheduled: 1,
        claimed: 1,
        parked: 0,
        verifying: 0,
        done: 1,
        dead: 1,
        cancelled: 1,
        expired: 1,
      };
      expect((await port.stats(QUEUE)).depth).toEqual(depth);
    });

    test("stats stay correct when tasks return to earlier states", async () => {
      const { port, clock } = await start();
      await addNamed(port, numbered(6));
      const held = await claim(port, { max: 6 });
      await release(port, held[0]!);
      await nack(port, held[1]!, HOUR);
      await nack(port, held[2]!);
      await port.cancel(held[1]!.id);
      await clock.advance(30 * SECOND);
      expect((await port.stats(QUEUE)).depth).toEqual({ ...NONE, ready: 5, cancelled: 1 });
      await port.purge(QUEUE);
      expect((await port.stats(QUEUE)).depth).toEqual({ ...NONE, cancelled: 1 });
    });

    test("stats count only their own queue", async () => {
      const { port } = await start();
      await port.add([newTask({ queue: "a" }), newTask({ queue: "b" }), newTask({ queue: "b" })]);
      expect((await port.stats("a")).depth.ready).toBe(1);
      expect((await port.stats("b")).depth.ready).toBe(2);
    });

    test("stats show the age of the oldest ready task", async () => {
      const { port, clock } = await start();
      await addOne(port, { delay: HOUR });
      await addOne(port);
      await clock.advance(10 * SECOND);
      await addOne(port, { priority: 9 });
      await clock.advance(5 * SECOND);
      expect((await port.stats(QUEUE)).oldestAge).toBe(15 * SECOND);
      await claim(port, { max: 2 });
      expect((await port.stats(QUEUE)).oldestAge).toBeNull();
    });

    test("stats show the rates of the last minute", async () => {
      const { port, clock } = await start();
      await addNamed(port, numbered(60));
      const held = await claim(port, { max: 40 });
      for (const [index, each] of held.entries()) {
        if (index < 30) await ack(port, each);
        else await nack(port, each, HOUR);
      }
      await clock.advance(5 * SECOND);
      const { rates, failureRate } = await port.stats(QUEUE);
      expect(rates).toEqual({
        windowMs: MINUTE,
        addedPerSecond: 1,
        donePerSecond: 0.5,
        failedPerSecond: 10 / 60,
      });
      expect(failureRate).toBe(0.25);
      await clock.advance(2 * MINUTE);
      expect((await port.stats(QUEUE)).rates).toEqual({
        windowMs: MINUTE,
        addedPerSecond: 0,
        donePerSecond: 0,
        failedPerSecond: 0,
      });
      expect((await port.stats(QUEUE)).failureRate).toBeNull();
    });

    test("stats show how long tasks wait and how long they take", async () => {
      const { port, clock } = await start();
      await addNamed(port, ["1", "2"]);
      await clock.advance(2 * SECOND);
      const first = await claimOne(port);
      await clock.advance(4 * SECOND);
      const second = await claimOne(port);
      await ack(port, first);
      await clock.advance(2 * SECOND);
      await nack(port, second);
      expect(await port.stats(QUEUE)).toMatchObject({ waitTime: 4 * SECOND, serviceTime: 3 * SECOND });
    });

    test("stats show how the times of the last successes are distributed", async () => {
      const { port, clock } = await start();
      await addNamed(port, numbered(11));
      const held = await claim(port, { max: 11, lease: HOUR });
      for (const each of held.slice(0, 10)) {
        await clock.advance(SECOND);
        await ack(port, each);
      }
      await clock.advance(MINUTE);
      await nack(port, held[10]!);
      const times = {
        count: 10,
        mean: 5_500,
        p50: 5 * SECOND,
        p90: 9 * SECOND,
        p99: 10 * SECOND,
        max: 10 * SECOND,
      };
      expect((await port.stats(QUEUE)).serviceTimes).toEqual(times);
    });

    test("stats count lost leases and rejects as failures, and ignore releases", async () => {
      const { port, clock } = await start();
      await addNamed(port, ["1", "2", "3"], { maxAttempts: 1 });
      const [, second, third] = await claim(port, { max: 3, lease: SECOND });
      await release(port, second!);
      await ack(port, third!);
      await clock.advance(SECOND);
      expect(await port.stats(QUEUE)).toMatchObject({
        failureRate: 0.5,
        depth: { dead: 1, ready: 1, done: 1 },
      });
    });

    test("stats count live workers", async () => {
      const { port } = await start();
      await joinWorker(port, "a");
      const b = await joinWorker(port, "b", { queues: ["other", QUEUE] });
      await joinWorker(port, "c", { queues: ["other"] });
      expect((await port.stats(QUEUE)).workers).toBe(2);
      await port.leave(b.session);
      expect((await port.stats(QUEUE)).workers).toBe(1);
    });

    test("stats stay correct when ended tasks are removed", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { retention: { age: MINUTE, count: 1_000 } });
      await addNamed(port, numbered(10));
      for (const each of await claim(port, { max: 10 })) await ack(port, each);
      await passLong(clock, HOUR);
      expect((await port.stats(QUEUE)).depth).toEqual(NONE);
    });
  });
}
