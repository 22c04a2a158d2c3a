import { describe, expect, test } from "vitest";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  depths,
  HOUR,
  MINUTE,
  nack,
  numbered,
  QUEUE,
  release,
  SAFETY_POLL,
  SECOND,
  type Start,
  stateOf,
  passLong,
} from "./kit.ts";

export function ttl(start: Start): void {
  describe("time-to-live", () => {
    test("a task that does not start in time expires", async () => {
      const { port, clock, startedAt } = await start();
      const { id } = await addOne(port, { ttl: MINUTE });
      const end = port.end(id);
      await clock.advance(MINUTE - 1);
      expect(await stateOf(port, id)).toBe("ready");
      await clock.advance(1);
      expect(await end).toEqual({ id, state: "expired", result: null, error: null });
      expect(await port.task(id)).toMatchObject({
        state: "expired",
        endedAt: startedAt + MINUTE,
        attempt: 0,
      });
      expect(await port.history(id)).toEqual([]);
    });

    test("an expired task is not handed out, and hides no other task", async () => {
      const { port, clock } = await start();
      await addNamed(port, numbered(50), { ttl: MINUTE, priority: 9 });
      await addNamed(port, ["fresh"]);
      clock.sleep(MINUTE);
      expect(await claimNames(port)).toEqual(["fresh"]);
    });

    test("a task without a ttl gets that of its queue", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { ttl: MINUTE });
      const short = await addOne(port);
      const long = await addOne(port, { ttl: HOUR });
      await clock.advance(MINUTE + SAFETY_POLL);
      expect(await stateOf(port, short.id)).toBe("expired");
      expect(await stateOf(port, long.id)).toBe("ready");
    });

    test("a claimed task does not expire", async () => {
      const { port, clock } = await start();
      await addOne(port, { ttl: SECOND });
      const held = await claimOne(port);
      await clock.advance(MINUTE / 3);
      expect(await ack(port, held)).toBe("done");
    });

    test("a task past its ttl gets no further attempt", async () => {
      const { port, clock } = await start();
      await addNamed(port, ["1", "2"], { ttl: SECOND });
      const [first, second] = await claim(port, { max: 2 });
      await clock.advance(SECOND);
      expect(await nack(port, first!)).toBe("expired");
      expect(await release(port, second!)).toBe("expired");
    });

    test("the ttl continues while a failed task waits", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { ttl: MINUTE });
      expect(await nack(port, await claimOne(port), HOUR)).toBe("scheduled");
      await clock.advance(MINUTE + SAFETY_POLL);
      expect(await stateOf(port, id)).toBe("expired");
    });

    test("a ttl shorter than the delay expires the task before it is due", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { ttl: SECOND, delay: MINUTE });
      await clock.advance(SECOND);
      expect(await stateOf(port, id)).toBe("expired");
      await clock.advance(MINUTE);
      expect(await claim(port)).toEqual([]);
    });

    test("tasks that wait in a group expire", async () => {
      const { port, clock } = await start();
      await addOne(port, { groupKey: "g" });
      await addNamed(port, ["2"], { groupKey: "g", ttl: SECOND });
      await addNamed(port, ["3"], { groupKey: "g" });
      const head = await claimOne(port);
      await clock.advance(SECOND);
      await ack(port, head);
      expect(await claimNames(port)).toEqual(["3"]);
      expect(await depths(port)).toEqual({ done: 1, expired: 1, claimed: 1 });
    });

    test("any number of tasks expires at once", async () => {
      const { port, clock } = await start();
      await addNamed(port, numbered(2_500), { ttl: SECOND });
      await clock.advance(SECOND + SAFETY_POLL);
      expect(await depths(port)).toEqual({ expired: 2_500 });
    });

    test("a redriven task has no ttl any more", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { ttl: MINUTE, maxAttempts: 1 });
      await nack(port, await claimOne(port));
      await passLong(clock, HOUR);
      await port.redrive(QUEUE, {}, 0);
      await passLong(clock, HOUR);
      expect(await port.task(id)).toMatchObject({ state: "ready", expiresAt: null });
    });
  });
}
