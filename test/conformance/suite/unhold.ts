import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import { govern } from "./governing.ts";
import {
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  failure,
  HOUR,
  MINUTE,
  QUEUE,
  SECOND,
  type Start,
} from "./kit.ts";

/** Somebody met a limit of somebody else's with the first that is ready. */
async function hold(port: Port, delay = HOUR): Promise<void> {
  await port.settle(await claimOne(port), { kind: "hold", error: failure("429"), delay });
}

export function unhold(start: Start): void {
  describe("a hold that is lifted", () => {
    test("lets its group go on at once, and wakes who waits", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await hold(port);
      expect(await claim(port)).toEqual([]);
      const next = claim(port, { wait: MINUTE });
      expect(await port.unhold(QUEUE, "g")).toBe(true);
      expect(await next).toMatchObject([{ data: "1", attempt: 1 }]);
      expect(await port.unhold(QUEUE, "g")).toBe(false);
    });

    test("lets as many of its group go on as may", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 2 });
      await addNamed(port, ["1", "2", "3"], { groupKey: "g" });
      await hold(port);
      expect(await port.unhold(QUEUE, "g")).toBe(true);
      expect(await claimNames(port, { max: 9 })).toEqual(["1", "2"]);
    });

    test("lets its queue go on at once, and wakes who waits", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2"]);
      await hold(port);
      const next = [claim(port, { wait: MINUTE }), claim(port, { wait: MINUTE })];
      expect(await port.unhold(QUEUE)).toBe(true);
      expect((await Promise.all(next)).flat()).toHaveLength(2);
      expect(await port.unhold(QUEUE)).toBe(false);
    });

    test("is that of its group, and no other", async () => {
      const { port } = await start();
      await addOne(port, { data: "a", groupKey: "a" });
      await addOne(port, { data: "b", groupKey: "b" });
      await hold(port);
      await hold(port);
      await addOne(port, { data: "none" });
      await hold(port);
      expect(await port.unhold(QUEUE, "b")).toBe(true);
      expect(await claim(port, { max: 9 })).toEqual([]);
      expect(await port.unhold(QUEUE)).toBe(true);
      expect((await claimNames(port, { max: 9 })).sort()).toEqual(["b", "none"]);
    });

    test("leaves other limits in force", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { rateLimit: [{ max: 1, per: MINUTE, pace: false, unit: null }] });
      await addNamed(port, ["1", "2"]);
      await hold(port);
      expect(await port.unhold(QUEUE)).toBe(true);
      expect(await claim(port)).toEqual([]);
      await clock.advance(MINUTE);
      expect(await claim(port)).toHaveLength(1);
    });

    test("is none where nothing is held, nor any more", async () => {
      const { port, clock } = await start();
      expect(await port.unhold(QUEUE)).toBe(false);
      expect(await port.unhold(QUEUE, "g")).toBe(false);
      expect(await port.queues()).toEqual([]);
      await addOne(port, { groupKey: "g" });
      expect(await port.unhold(QUEUE, "g")).toBe(false);
      await hold(port, SECOND);
      await clock.advance(SECOND);
      expect(await port.unhold(QUEUE, "g")).toBe(false);
      expect(await claim(port)).toHaveLength(1);
    });

    test("may be followed by another", async () => {
      const { port } = await start();
      await addOne(port, { groupKey: "g" });
      await hold(port);
      await port.unhold(QUEUE, "g");
      await hold(port, MINUTE);
      expect(await claim(port)).toEqual([]);
      expect(await port.unhold(QUEUE, "g")).toBe(true);
      expect(await claim(port)).toHaveLength(1);
    });
  });
}
