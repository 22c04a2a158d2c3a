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
  isPending,
  joinWorker,
  makeDead,
  newTask,
  numbered,
  QUEUE,
  refused,
  SAFETY_POLL,
  type Start,
  stateOf,
  waiting,
  passLong,
} from "./kit.ts";

export function queues(start: Start): void {
  describe("queues", () => {
    test("the first task creates its queue", async () => {
      const { port, startedAt } = await start();
      expect((await port.queues()).items).toEqual([]);
      await addOne(port);
      expect((await port.queues()).items).toEqual([
        { name: QUEUE, paused: false, createdAt: startedAt, policy: await port.declare(QUEUE, {}) },
      ]);
    });

    test("reading a queue does not create it", async () => {
      const { port } = await start();
      expect(await claim(port)).toEqual([]);
      expect(await port.purge(QUEUE)).toBe(0);
      await port.drop(QUEUE);
      expect((await port.stats(QUEUE)).depth.ready).toBe(0);
      expect((await port.list({ queue: QUEUE, state: "dead", limit: 1 })).tasks).toEqual([]);
      expect((await port.queues()).items).toEqual([]);
    });

    test("queues are listed by name, all or one", async () => {
      const { port } = await start();
      await port.add(["b", "c", "a"].map((queue) => newTask({ queue })));
      expect((await port.queues()).items.map(({ name }) => name)).toEqual(["a", "b", "c"]);
      expect((await port.queues({ queue: "b" })).items.map(({ name }) => name)).toEqual(["b"]);
      expect((await port.queues({ queue: "d" })).items).toEqual([]);
    });
  });

  describe("figures of all queues", () => {
    test("queues with stats have the figures that stats reports for each", async () => {
      const { port } = await start();
      await port.add(numbered(3).map(() => newTask({ queue: "a" })));
      await port.add([newTask({ queue: "b" }), newTask({ queue: "b", delay: HOUR })]);
      await joinWorker(port, "w1", { queues: ["a", "b"] });
      await joinWorker(port, "w2", { queues: ["b"] });
      await ack(port, (await claim(port, { queues: ["a"] }))[0]!);
      await port.declare("limited", { maxConcurrency: 1 });
      await port.add([newTask({ queue: "limited" }), newTask({ queue: "limited" })]);
      await claim(port, { queues: ["limited"] });
      const { items } = await port.queues({ stats: true });
      expect(items.map(({ name }) => name)).toEqual(["a", "b", "limited"]);
      for (const { name, stats } of items) {
        const {
          queue: _,
          exists,
          paused: _paused,
          serviceTimes: _times,
          ...figures
        } = await port.stats(name);
        expect(exists).toBe(true);
        expect(stats).toEqual(figures);
      }
      expect(items[1]!.stats!.workers).toBe(2);
      expect(items[2]!.stats!.heldBack).toEqual({ by: "concurrency", until: null });
    });

    test("figures come page by page, and only if they are asked for", async () => {
      const { port } = await start();
      await port.add(["a", "b"].map((queue) => newTask({ queue })));
      const first = await port.queues({ stats: true, limit: 1 });
      expect(first.items[0]!.stats!.depth.ready).toBe(1);
      const second = await port.queues({ stats: true, limit: 1, after: first.next! });
      expect(second.items[0]!.name).toBe("b");
      expect((await port.queues()).items[0]).not.toHaveProperty("stats");
      await refused(() => port.queues({ stats: "yes" as never }), "INVALID", "stats");
    });
  });

  describe("paused queues", () => {
    test("a paused queue accepts tasks and hands none out", async () => {
      const { port } = await start();
      await port.pause(QUEUE, true);
      await addOne(port);
      expect(await claim(port)).toEqual([]);
      expect((await port.queues()).items[0]!.paused).toBe(true);
      expect((await port.stats(QUEUE)).paused).toBe(true);
      await port.pause(QUEUE, false);
      expect(await claim(port)).toHaveLength(1);
    });

    test("claims of a paused queue continue", async () => {
      const { port } = await start();
      await addOne(port);
      const held = await claimOne(port);
      await port.pause(QUEUE, true);
      expect(await ack(port, held)).toBe("done");
    });

    test("pausing a queue does not affect other queues", async () => {
      const { port } = await start();
      await port.pause("a", true);
      await port.add([newTask({ queue: "a" }), newTask({ queue: "b" })]);
      expect((await claim(port, { queues: ["a", "b"], max: 9 })).map(({ queue }) => queue)).toEqual(["b"]);
    });

    test("a pause ends when the queue is dropped: a new queue of that name is not paused", async () => {
      const { port } = await start();
      await port.pause(QUEUE, true);
      await port.drop(QUEUE);
      await addNamed(port, ["a"]);
      expect((await port.queues()).items).toMatchObject([{ name: QUEUE, paused: false }]);
      expect(await claimNames(port)).toEqual(["a"]);
    });

    test("resuming a queue wakes waiting claims", async () => {
      const { port, clock } = await start();
      await port.pause(QUEUE, true);
      const answers = [waiting(port), waiting(port)];
      await addNamed(port, ["a", "b"]);
      expect(await isPending(clock, Promise.race(answers))).toBe(true);
      await port.pause(QUEUE, false);
      expect((await Promise.all(answers)).flat()).toHaveLength(2);
    });

    test("a paused queue promotes due tasks", async () => {
      const { port, clock } = await start();
      await port.pause(QUEUE, true);
      const { id } = await addOne(port, { delay: HOUR });
      await passLong(clock, HOUR + SAFETY_POLL);
      expect(await stateOf(port, id)).toBe("ready");
    });
  });

  describe("purge", () => {
    test("a purge removes ready, waiting and scheduled tasks, and nothing else", async () => {
      const { port } = await start();
      await makeDead(port);
      await addOne(port);
      await ack(port, await claimOne(port));
      const claimed = await addOne(port);
      await claimOne(port);
      await addOne(port, { groupKey: "g" });
      await addOne(port, { groupKey: "g" });
      await addOne(port, { delay: HOUR });
      expect(await depths(port)).toEqual({
        ready: 1,
        waiting: 1,
        scheduled: 1,
        claimed: 1,
        done: 1,
        dead: 1,
      });
      expect(await port.purge(QUEUE)).toBe(3);
      expect(await depths(port)).toEqual({ claimed: 1, done: 1, dead: 1 });
      expect(await stateOf(port, claimed.id)).toBe("claimed");
    });

    test("a purged task is gone completely", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      await port.purge(QUEUE);
      await refused(() => port.task(id), "TASK_NOT_FOUND", id);
    });

    test("a purge does not remove tasks that are added during it", async () => {
      const { port } = await start();
      await addNamed(port, numbered(5_000));
      const purging = port.purge(QUEUE);
      const adding = addOne(port, { data: "later" });
      expect(await purging).toBe(5_000);
      await adding;
      expect(await claimNames(port)).toEqual(["later"]);
    });

    test("a purge does not affect other queues", async () => {
      const { port } = await start();
      await port.add([newTask({ queue: "a" }), newTask({ queue: "b" })]);
      expect(await port.purge("a")).toBe(1);
      expect(await depths(port, "b")).toEqual({ ready: 1 });
    });

    test("a purge frees groups without a claimed head", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2", "3"], { groupKey: "g" });
      await port.purge(QUEUE);
      expect((await addOne(port, { groupKey: "g" })).state).toBe("ready");
    });

    test("a group stays blocked by its claimed head after a purge", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      const held = await claimOne(port);
      await port.purge(QUEUE);
      expect((await addOne(port, { groupKey: "g", data: "3" })).state).toBe("waiting");
      await ack(port, held);
      expect(await claimNames(port)).toEqual(["3"]);
    });

    test("a purge reports to callers that wait for a result", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port);
      const end = port.end(id);
      const told = refused(() => end, "TASK_NOT_FOUND", id);
      expect(await isPending(clock, end)).toBe(true);
      await port.purge(QUEUE);
      await clock.advance(SAFETY_POLL);
      await told;
    });
  });

  describe("dropping a queue", () => {
    test("dropping a queue removes its tasks and its policy", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxAttempts: 2 });
      const dead = await makeDead(port);
      const { id } = await addOne(port);
      await port.drop(QUEUE);
      expect((await port.queues()).items).toEqual([]);
      expect(await depths(port)).toEqual({});
      await refused(() => port.task(id), "TASK_NOT_FOUND");
      await refused(() => port.history(dead), "TASK_NOT_FOUND");
      expect((await port.declare(QUEUE, {})).maxAttempts).toBe(5);
    });

    test("dropping a queue ends its claims, and their holders get notices", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      await addOne(port);
      const held = await worker.claimOne();
      await port.drop(QUEUE);
      expect(await worker.notices.next()).toMatchObject({ kind: "lost", id: held.id, fence: held.fence });
      await refused(() => ack(port, held), "CLAIM_LOST");
    });

    test("dropping a queue reports to callers that wait for a result", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const end = refused(() => port.end(id), "TASK_NOT_FOUND", id);
      await port.drop(QUEUE);
      await end;
    });

    test("dropping a queue does not affect other queues", async () => {
      const { port } = await start();
      await port.add([newTask({ queue: "a", groupKey: "g" }), newTask({ queue: "b", groupKey: "g" })]);
      await port.drop("a");
      expect(await claim(port, { queues: ["a", "b"], max: 9 })).toHaveLength(1);
    });

    test("dropping a queue removes more tasks than fit into one commit", async () => {
      const { port } = await start();
      await addNamed(port, numbered(5_000));
      await port.drop(QUEUE);
      expect(await depths(port)).toEqual({});
      expect((await port.queues()).items).toEqual([]);
    });
  });
}
