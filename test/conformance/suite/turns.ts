import { describe, expect, test } from "vitest";
import { govern, rate, workOff } from "./governing.ts";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  depths,
  isPending,
  joinWorker,
  MINUTE,
  nack,
  namesOf,
  numbered,
  QUEUE,
  SECOND,
  type Start,
  stateOf,
} from "./kit.ts";

export function turns(start: Start): void {
  describe("fair groups", () => {
    test("take turns, whatever they have waiting", async () => {
      const { port } = await start();
      await govern(port, { fair: true, concurrency: 100 });
      await addNamed(port, numbered(50, "a"), { groupKey: "a" });
      await addNamed(port, numbered(3, "b"), { groupKey: "b" });
      await addNamed(port, numbered(2, "c"), { groupKey: "c" });
      expect(await workOff(port, 9)).toEqual(["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "a3"]);
    });

    test("take turns within one claim, too", async () => {
      const { port } = await start();
      await govern(port, { fair: true, concurrency: 100 });
      await addNamed(port, numbered(50, "a"), { groupKey: "a" });
      await addNamed(port, numbered(3, "b"), { groupKey: "b" });
      expect(await claimNames(port, { max: 7 })).toEqual(["a0", "b0", "a1", "b1", "a2", "b2", "a3"]);
    });

    test("begin at the end of the rotation when they are new", async () => {
      const { port } = await start();
      await govern(port, { fair: true, concurrency: 100 });
      await addNamed(port, numbered(9, "a"), { groupKey: "a" });
      await addNamed(port, numbered(9, "b"), { groupKey: "b" });
      expect(await workOff(port, 3)).toEqual(["a0", "b0", "a1"]);
      await addNamed(port, numbered(9, "c"), { groupKey: "c" });
      expect(await workOff(port, 4)).toEqual(["b1", "a2", "c0", "b2"]);
    });

    test("run one at a time unless more are allowed", async () => {
      const { port } = await start();
      await govern(port, { fair: true });
      await addNamed(port, numbered(3, "a"), { groupKey: "a" });
      await addNamed(port, numbered(3, "b"), { groupKey: "b" });
      expect(await claimNames(port)).toEqual(["a0", "b0"]);
    });

    test("have as many turns in a rotation as they weigh", async () => {
      const { port } = await start();
      await govern(port, { fair: true, concurrency: 100, weight: { big: 3 } });
      await addNamed(port, numbered(50, "s"), { groupKey: "small" });
      await addNamed(port, numbered(50, "b"), { groupKey: "big" });
      const seen = (await workOff(port, 16)).map((name) => name[0]!).join("");
      expect(seen).toBe("sbbbsbbbsbbbsbbb");
    });

    test("are served by priority first", async () => {
      const { port } = await start();
      await govern(port, { fair: true, concurrency: 100 });
      await addNamed(port, numbered(3, "a"), { groupKey: "a" });
      await addNamed(port, numbered(3, "b"), { groupKey: "b", priority: 5 });
      expect(await workOff(port, 5)).toEqual(["b0", "b1", "b2", "a0", "a1"]);
    });

    test("keep the order within each", async () => {
      const { port } = await start();
      await govern(port, { fair: true });
      await addNamed(port, numbered(3, "a"), { groupKey: "a" });
      await addNamed(port, numbered(3, "b"), { groupKey: "b" });
      await nack(port, await claimOne(port));
      expect(await workOff(port, 6)).toEqual(["b0", "a0", "b1", "a1", "b2", "a2"]);
    });

    test("take turns in a queue that was not fair before", async () => {
      const { port } = await start();
      await addNamed(port, numbered(3, "a"), { groupKey: "a" });
      await addNamed(port, numbered(3, "b"), { groupKey: "b" });
      await govern(port, { fair: true });
      expect(await workOff(port, 6)).toEqual(["a0", "b0", "a1", "b1", "a2", "b2"]);
    });

    test("lose nothing to those who cancel, purge or look", async () => {
      const { port } = await start();
      await govern(port, { fair: true });
      const [, second] = await addNamed(port, numbered(4, "a"), { groupKey: "a" });
      await addNamed(port, numbered(2, "b"), { groupKey: "b" });
      expect(await workOff(port, 2)).toEqual(["a0", "b0"]);
      expect(await stateOf(port, second!)).toBe("ready");
      const { tasks } = await port.list({ queue: QUEUE, state: "ready", limit: 9 });
      expect(namesOf(tasks)).toEqual(["a1", "b1"]);
      await port.cancel(second!);
      expect(await workOff(port, 2)).toEqual(["b1", "a2"]);
      expect(await port.purge(QUEUE)).toBe(1);
      expect(await depths(port)).toEqual({ done: 4, cancelled: 1 });
      expect((await addOne(port, { groupKey: "a" })).state).toBe("ready");
    });

    test("are served within a rotation, whatever comes and goes", async () => {
      const { port } = await start();
      const weight: Record<string, number> = { g0: 3, g1: 2 };
      await govern(port, { fair: true, concurrency: 100, weight });
      const keys = numbered(6, "g");
      const rotation = keys.reduce((sum, key) => sum + (weight[key] ?? 1), 0);
      const pending = new Map(keys.map((key) => [key, 0]));
      const waited = new Map(keys.map((key) => [key, 0]));
      // The same numbers each time, without a pattern that a rotation could share.
      let state = 7;
      const below = (most: number): number => (state = (state * 48_271) % 2_147_483_647) % most;
      for (let i = 0; i < 150; i++) {
        const key = keys[below(i < 60 ? 2 : keys.length)]!;
        const count = below(4);
        if (count > 0) await addNamed(port, numbered(count), { groupKey: key });
        pending.set(key, pending.get(key)! + count);
        const [held] = await claim(port);
        if (!held) continue;
        for (const other of keys) if (pending.get(other)! > 0) waited.set(other, waited.get(other)! + 1);
        waited.set(held.groupKey!, 0);
        pending.set(held.groupKey!, pending.get(held.groupKey!)! - 1);
        expect(Math.max(...waited.values())).toBeLessThanOrEqual(rotation);
        if (below(2) === 0) await ack(port, held);
      }
    });

    test("go with the rate of each", async () => {
      const { port, clock } = await start();
      await govern(port, { fair: true, concurrency: 9, rateLimit: [rate(2, MINUTE, { pace: true })] });
      await addNamed(port, numbered(3, "a"), { groupKey: "a" });
      await addNamed(port, numbered(3, "b"), { groupKey: "b" });
      expect(await claimNames(port)).toEqual(["a0", "b0"]);
      await clock.advance(MINUTE / 2 - 1);
      expect(await depths(port)).toMatchObject({ waiting: 4 });
    });
  });

  describe("sticky groups", () => {
    test("go to the worker that had the last one, while it lives", async () => {
      const { port } = await start();
      await govern(port, { sticky: true });
      const [a, b] = [await joinWorker(port, "a"), await joinWorker(port, "b")];
      await addNamed(port, numbered(3), { groupKey: "g" });
      await ack(port, await a.claimOne());
      expect(await b.claim()).toEqual([]);
      expect(await claim(port)).toEqual([]);
      const second = await a.claimOne();
      expect(second.data).toBe("1");
      await ack(port, second);
      await port.leave(a.session);
      expect((await b.claimOne()).data).toBe("2");
    });

    test("wake their worker, and not another one", async () => {
      const { port, clock } = await start();
      await govern(port, { sticky: true });
      const [a, b] = [await joinWorker(port, "a"), await joinWorker(port, "b")];
      await addNamed(port, ["1"], { groupKey: "g" });
      await ack(port, await a.claimOne());
      const others = b.claim({ wait: MINUTE });
      const own = a.claim({ wait: MINUTE });
      await clock.advance(0);
      await addNamed(port, ["2"], { groupKey: "g" });
      expect(await own).toMatchObject([{ data: "2" }]);
      expect(await isPending(clock, others)).toBe(true);
    });

    test("keep nobody from the others", async () => {
      const { port } = await start();
      await govern(port, { sticky: true });
      const [a, b] = [await joinWorker(port, "a"), await joinWorker(port, "b")];
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await ack(port, await a.claimOne());
      await addNamed(port, ["h"], { groupKey: "h" });
      await addNamed(port, ["free"]);
      expect(namesOf(await b.claim({ max: 9 }))).toEqual(["h", "free"]);
      expect(namesOf(await a.claim({ max: 9 }))).toEqual(["2"]);
    });

    test("are served in the order of the line among what is for all", async () => {
      const { port } = await start();
      await govern(port, { sticky: true });
      const a = await joinWorker(port, "a");
      await addNamed(port, ["g1", "g2"], { groupKey: "g" });
      await ack(port, await a.claimOne());
      await addNamed(port, ["free"]);
      await addNamed(port, ["first"], { priority: 1 });
      expect(namesOf(await a.claim({ max: 9 }))).toEqual(["first", "g2", "free"]);
    });

    test("go to another worker when theirs has failed", async () => {
      const { port } = await start();
      await govern(port, { sticky: true });
      const [a, b] = [await joinWorker(port, "a"), await joinWorker(port, "b")];
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await nack(port, await a.claimOne());
      expect(await a.claim()).toEqual([]);
      await ack(port, await b.claimOne());
      expect(await a.claim()).toEqual([]);
      expect((await b.claimOne()).data).toBe("2");
    });

    test("are anybody's when their worker falls silent", async () => {
      const { port, clock, hang } = await start();
      await govern(port, { sticky: true });
      const a = await joinWorker(port, "a");
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await ack(port, await a.claimOne());
      expect(await claim(port)).toEqual([]);
      const next = claim(port, { wait: MINUTE });
      hang();
      await clock.advance(31 * SECOND);
      expect(await next).toMatchObject([{ data: "2" }]);
    });

    test("are not for claims by hand: nobody knows whether they live", async () => {
      const { port } = await start();
      await govern(port, { sticky: true });
      await joinWorker(port, "a");
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await ack(port, await claimOne(port, { worker: "hand" }));
      expect((await claimOne(port, { worker: "other" })).data).toBe("2");
    });
  });
}
