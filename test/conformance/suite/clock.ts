import { describe, expect, test } from "vitest";
import {
  ack,
  addOne,
  claim,
  claimOne,
  DAY,
  HOUR,
  joinWorker,
  MINUTE,
  refused,
  SAFETY_POLL,
  SECOND,
  type Start,
  stateOf,
  waiting,
} from "./kit.ts";

export function clock(start: Start): void {
  describe("when the machine sleeps", () => {
    test("a lease does not get shorter while the machine sleeps, but ends by a server's clock", async () => {
      const { port, clock, serverTime } = await start();
      await addOne(port);
      const held = await claimOne(port);
      await clock.advance(20 * SECOND);
      clock.sleep(8 * HOUR);
      if (serverTime) {
        expect(await claimOne(port)).toMatchObject({ id: held.id, attempt: 2 });
        return;
      }
      await clock.advance(10 * SECOND - 1);
      expect(await claim(port)).toEqual([]);
      await clock.advance(1);
      expect(await claimOne(port)).toMatchObject({ id: held.id, attempt: 2 });
    });

    test("a worker keeps its claims while the machine sleeps, but loses them by a server's clock", async () => {
      const { port, clock, serverTime } = await start();
      const worker = await joinWorker(port, "w");
      await addOne(port);
      const held = await worker.claimOne();
      clock.sleep(8 * HOUR);
      if (serverTime) {
        expect(await claimOne(port)).toMatchObject({ id: held.id, attempt: 2 });
        await refused(() => ack(port, held), "CLAIM_LOST");
        await clock.advance(10 * SECOND);
        expect(await worker.notices.next()).toMatchObject({ kind: "gone" });
        return;
      }
      expect(await claim(port)).toEqual([]);
      await clock.advance(5 * MINUTE);
      expect(await ack(port, held)).toBe("done");
      expect(worker.notices.all).toEqual([]);
    });

    test("a task that became due during the sleep is ready", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { delay: HOUR });
      const next = waiting(port);
      clock.sleep(2 * HOUR);
      await clock.advance(SAFETY_POLL);
      expect((await next)[0]!.id).toBe(id);
    });

    test("a task whose time-to-live ended during the sleep is expired", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { ttl: HOUR });
      clock.sleep(2 * HOUR);
      expect(await claim(port)).toEqual([]);
      await clock.advance(SAFETY_POLL);
      expect(await stateOf(port, id)).toBe("expired");
    });

    test("later due times are met as before the sleep", async () => {
      const { port, clock } = await start();
      await clock.advance(SECOND);
      clock.sleep(8 * HOUR);
      await addOne(port, { delay: 300 });
      const next = waiting(port);
      await clock.advance(300);
      expect(await next).toHaveLength(1);
      expect(clock.read().awake).toBe(SECOND + 300);
    });
  });

  describe.each([
    ["forward", 30 * DAY],
    ["back", -30 * DAY],
  ])("when the calendar steps %s", (_, step) => {
    test("a lease lasts as long as before the calendar step", async () => {
      const { port, clock } = await start();
      await addOne(port);
      await claimOne(port);
      clock.step(step);
      await clock.advance(30 * SECOND - 1);
      expect(await claim(port)).toEqual([]);
      await clock.advance(1);
      expect((await claimOne(port)).attempt).toBe(2);
    });

    test("a worker keeps its claims after the calendar step", async () => {
      const { port, clock } = await start();
      const worker = await joinWorker(port, "w");
      await addOne(port);
      const held = await worker.claimOne();
      clock.step(step);
      await clock.advance(5 * MINUTE);
      expect(await ack(port, held)).toBe("done");
    });

    test("a delay lasts as long as before the calendar step", async () => {
      const { port, clock } = await start();
      await addOne(port, { delay: MINUTE });
      clock.step(step);
      await clock.advance(MINUTE - 1);
      expect(await claim(port)).toEqual([]);
      await clock.advance(1);
      expect(await claim(port)).toHaveLength(1);
    });

    test("a time-to-live lasts as long as before the calendar step", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { ttl: MINUTE });
      clock.step(step);
      await clock.advance(MINUTE - 1);
      expect(await stateOf(port, id)).toBe("ready");
      await clock.advance(1 + SAFETY_POLL);
      expect(await stateOf(port, id)).toBe("expired");
    });

    test("ids still sort by arrival and times do not go back after the calendar step", async () => {
      const { port, clock } = await start();
      const before = await addOne(port);
      await clock.advance(10);
      clock.step(step);
      await clock.advance(10);
      const after = await addOne(port);
      expect(after.id > before.id).toBe(true);
      const [first, second] = [await port.task(before.id), await port.task(after.id)];
      expect(second.createdAt).toBe(first.createdAt + 20);
    });
  });
}
