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

/** Claims the first ready task and settles it with a hold. */
async function hold(port: Port, delay = HOUR): Promise<void> {
  await port.settle(await claimOne(port), { kind: "hold", error: failure("429"), delay });
}

export function unhold(start: Start): void {
  describe("unhold", () => {
    test("unhold lets a group continue at once, and wakes a waiting claim", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await hold(port);
      expect(await claim(port)).toEqual([]);
      const next = claim(port, { wait: MINUTE });
      expect(await port.unhold(QUEUE, "g")).toBe(true);
      expect(await next).toMatchObject([{ data: "1", attempt: 1 }]);
      expect(await port.unhold(QUEUE, "g")).toBe(false);
    });

    test("unhold promotes as many tasks of the group as its concurrency allows", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 2 });
      await addNamed(port, ["1", "2", "3"], { groupKey: "g" });
      await hold(port);
      expect(await port.unhold(QUEUE, "g")).toBe(true);
      expect(await claimNames(port, { max: 9 })).toEqual(["1", "2"]);
    });

    test("unhold lets a queue continue at once, and wakes a waiting claim", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2"]);
      await hold(port);
      const next = [claim(port, { wait: MINUTE }), claim(port, { wait: MINUTE })];
      expect(await port.unhold(QUEUE)).toBe(true);
      expect((await Promise.all(next)).flat()).toHaveLength(2);
      expect(await port.unhold(QUEUE)).toBe(false);
    });

    test("unhold of a group does not affect other groups", async () => {
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

    test("unhold does not affect other limits", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { rateLimit: [{ max: 1, per: MINUTE, pace: false, unit: null }] });
      await addNamed(port, ["1", "2"]);
      await hold(port);
      expect(await port.unhold(QUEUE)).toBe(true);
      expect(await claim(port)).toEqual([]);
      await clock.advance(MINUTE);
      expect(await claim(port)).toHaveLength(1);
    });

    test("unhold answers false if there is no hold", async () => {
      const { port, clock } = await start();
      expect(await port.unhold(QUEUE)).toBe(false);
      expect(await port.unhold(QUEUE, "g")).toBe(false);
      expect((await port.queues()).items).toEqual([]);
      await addOne(port, { groupKey: "g" });
      expect(await port.unhold(QUEUE, "g")).toBe(false);
      await hold(port, SECOND);
      await clock.advance(SECOND);
      expect(await port.unhold(QUEUE, "g")).toBe(false);
      expect(await claim(port)).toHaveLength(1);
    });

    test("a group can be held again after unhold", async () => {
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
