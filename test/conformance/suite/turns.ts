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
    test("fair groups rotate, however many tasks each has", async () => {
      const { port } = await start();
      await govern(port, { fair: true, concurrency: 100 });
      await addNamed(port, numbered(50, "a"), { groupKey: "a" });
      await addNamed(port, numbered(3, "b"), { groupKey: "b" });
      await addNamed(port, numbered(2, "c"), { groupKey: "c" });
      expect(await workOff(port, 9)).toEqual(["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "a3"]);
    });

    test("fair groups rotate within one claim", async () => {
      const { port } = await start();
      await govern(port, { fair: true, concurrency: 100 });
      await addNamed(port, numbered(50, "a"), { groupKey: "a" });
      await addNamed(port, numbered(3, "b"), { groupKey: "b" });
      expect(await claimNames(port, { max: 7 })).toEqual(["a0", "b0", "a1", "b1", "a2", "b2", "a3"]);
    });

    test("a new group starts at the end of the rotation", async () => {
      const { port } = await start();
      await govern(port, { fair: true, concurrency: 100 });
      await addNamed(port, numbered(9, "a"), { groupKey: "a" });
      await addNamed(port, numbered(9, "b"), { groupKey: "b" });
      expect(await workOff(port, 3)).toEqual(["a0", "b0", "a1"]);
      await addNamed(port, numbered(9, "c"), { groupKey: "c" });
      expect(await workOff(port, 4)).toEqual(["b1", "a2", "c0", "b2"]);
    });

    test("fair groups run one task at a time unless concurrency is higher", async () => {
      const { port } = await start();
      await govern(port, { fair: true });
      await addNamed(port, numbered(3, "a"), { groupKey: "a" });
      await addNamed(port, numbered(3, "b"), { groupKey: "b" });
      expect(await claimNames(port)).toEqual(["a0", "b0"]);
    });

    test("a group gets as many turns per rotation as its weight", async () => {
      const { port } = await start();
      await govern(port, { fair: true, concurrency: 100, weight: { big: 3 } });
      await addNamed(port, numbered(50, "s"), { groupKey: "small" });
      await addNamed(port, numbered(50, "b"), { groupKey: "big" });
      const seen = (await workOff(port, 16)).map((name) => name[0]!).join("");
      expect(seen).toBe("sbbbsbbbsbbbsbbb");
    });

    test("priority comes before the rotation", async () => {
      const { port } = await start();
      await govern(port, { fair: true, concurrency: 100 });
      await addNamed(port, numbered(3, "a"), { groupKey: "a" });
      await addNamed(port, numbered(3, "b"), { groupKey: "b", priority: 5 });
      expect(await workOff(port, 5)).toEqual(["b0", "b1", "b2", "a0", "a1"]);
    });

    test("each fair group keeps its order", async () => {
      const { port } = await start();
      await govern(port, { fair: true });
      await addNamed(port, numbered(3, "a"), { groupKey: "a" });
      await addNamed(port, numbered(3, "b"), { groupKey: "b" });
      await nack(port, await claimOne(port));
      expect(await workOff(port, 6)).toEqual(["b0", "a0", "b1", "a1", "b2", "a2"]);
    });

    test("groups rotate after their queue becomes fair", async () => {
      const { port } = await start();
      await addNamed(port, numbered(3, "a"), { groupKey: "a" });
      await addNamed(port, numbered(3, "b"), { groupKey: "b" });
      await govern(port, { fair: true });
      expect(await workOff(port, 6)).toEqual(["a0", "b0", "a1", "b1", "a2", "b2"]);
    });

    test("cancel, purge and list work with fair groups", async () => {
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

    test("every fair group gets its turn within one rotation, while tasks are added and end", async () => {
      const { port } = await start();
      const weight: Record<string, number> = { g0: 3, g1: 2 };
      await govern(port, { fair: true, concurrency: 100, weight });
      const keys = numbered(6, "g");
      const rotation = keys.reduce((sum, key) => sum + (weight[key] ?? 1), 0);
      const pending = new Map(keys.map((key) => [key, 0]));
      const waited = new Map(keys.map((key) => [key, 0]));
      // Pseudo-random with a fixed seed, so that the numbers have no period that a rotation could share.
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

    test("fair groups and group rate limits apply together", async () => {
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
    test("a sticky group goes to the worker that had its last task, while that worker lives", async () => {
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

    test("a task of a sticky group wakes its worker, and no other", async () => {
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

    test("a sticky group does not keep workers from other tasks", async () => {
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

    test("a worker gets tasks of its sticky groups and other tasks in the order of the line", async () => {
      const { port } = await start();
      await govern(port, { sticky: true });
      const a = await joinWorker(port, "a");
      await addNamed(port, ["g1", "g2"], { groupKey: "g" });
      await ack(port, await a.claimOne());
      await addNamed(port, ["free"]);
      await addNamed(port, ["first"], { priority: 1 });
      expect(namesOf(await a.claim({ max: 9 }))).toEqual(["first", "g2", "free"]);
    });

    test("a sticky group goes to another worker after its worker failed a task", async () => {
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

    test("a sticky group goes to any worker when its worker's heartbeats stop", async () => {
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

    test("manual claims get no sticky groups, because they have no heartbeats", async () => {
      const { port } = await start();
      await govern(port, { sticky: true });
      await joinWorker(port, "a");
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await ack(port, await claimOne(port, { worker: "hand" }));
      expect((await claimOne(port, { worker: "other" })).data).toBe("2");
    });
  });
}
