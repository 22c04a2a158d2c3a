import { describe, expect, test } from "vitest";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  DAY,
  depths,
  HOUR,
  HOUSEKEEPING,
  makeDead,
  MINUTE,
  numbered,
  passLong,
  QUEUE,
  refused,
  SECOND,
  type Start,
  stateOf,
} from "./kit.ts";

export function retention(start: Start): void {
  describe("retention of ended tasks", () => {
    test("an ended task is stored for a day, then removed with its ledger", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port);
      await ack(port, await claimOne(port), "r");
      await passLong(clock, DAY - MINUTE);
      expect((await port.end(id)).result).toBe("r");
      await passLong(clock, MINUTE + HOUSEKEEPING);
      await refused(() => port.task(id), "TASK_NOT_FOUND", id);
      await refused(() => port.end(id), "TASK_NOT_FOUND");
      await refused(() => port.history(id), "TASK_NOT_FOUND");
    });

    test("an ended task is stored as long as its queue's policy says", async () => {
      const { port, clock } = await start();
      await port.declare("short", { retention: { age: MINUTE, count: 1_000 } });
      await port.declare("long", { retention: { age: 3 * DAY, count: 1_000 } });
      const ids: string[] = [];
      for (const queue of ["short", "long"]) {
        ids.push((await addOne(port, { queue })).id);
        await ack(port, await claimOne(port, { queues: [queue] }));
      }
      await passLong(clock, HOUR);
      await refused(() => port.task(ids[0]!), "TASK_NOT_FOUND");
      await passLong(clock, 2 * DAY);
      expect(await stateOf(port, ids[1]!)).toBe("done");
    });

    test("done, cancelled and expired tasks are all removed", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { retention: { age: MINUTE, count: 1_000 } });
      await addOne(port);
      await ack(port, await claimOne(port));
      await port.cancel((await addOne(port)).id);
      await addOne(port, { ttl: 1 });
      await clock.advance(SECOND);
      expect(await depths(port)).toEqual({ done: 1, cancelled: 1, expired: 1 });
      await passLong(clock, HOUR);
      expect(await depths(port)).toEqual({});
    });

    test("only the latest ended tasks up to the retention count are stored", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { retention: { age: DAY, count: 3 } });
      const ids = await addNamed(port, numbered(6));
      for (const each of await claim(port, { max: 6 })) {
        await ack(port, each);
        await clock.advance(10);
      }
      await clock.advance(HOUSEKEEPING);
      expect(await depths(port)).toEqual({ done: 3 });
      for (const id of ids.slice(0, 3)) await refused(() => port.task(id), "TASK_NOT_FOUND");
      for (const id of ids.slice(3)) expect(await stateOf(port, id)).toBe("done");
    });

    test("no ended task is stored with a retention count of zero", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { retention: { age: DAY, count: 0 } });
      await addOne(port);
      await ack(port, await claimOne(port));
      await clock.advance(HOUSEKEEPING);
      expect(await depths(port)).toEqual({});
    });

    test("any number of ended tasks is removed", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { retention: { age: DAY, count: 10 } });
      await addNamed(port, numbered(2_500));
      for (let round = 0; round < 3; round++) {
        const held = await claim(port, { max: 1_000 });
        await Promise.all(held.map((each) => ack(port, each)));
      }
      await clock.advance(HOUSEKEEPING);
      expect(await depths(port)).toEqual({ done: 10 });
    });
  });

  test("dead letters stay, whatever the retention", async () => {
    const { port, clock } = await start();
    await port.declare(QUEUE, { retention: { age: 1, count: 0 } });
    const id = await makeDead(port);
    await passLong(clock, 90 * DAY);
    expect(await stateOf(port, id)).toBe("dead");
    expect(await port.history(id)).toHaveLength(1);
  });

  test("a task that has not ended stays, however old it is", async () => {
    const { port, clock } = await start();
    await port.declare(QUEUE, { retention: { age: 1, count: 0 } });
    await addNamed(port, ["1", "2"], { groupKey: "g" });
    await addNamed(port, ["3"], { delay: 80 * DAY });
    await passLong(clock, 90 * DAY);
    expect(await claimNames(port)).toEqual(["1", "3"]);
    expect(await depths(port)).toEqual({ claimed: 2, waiting: 1 });
  });
}
