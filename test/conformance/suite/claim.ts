import { describe, expect, test } from "vitest";
import type { ClaimedTask } from "../../../src/core/task/task.ts";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimOne,
  depths,
  idsOf,
  namesOf,
  newTask,
  numbered,
  QUEUE,
  SECOND,
  type Start,
} from "./kit.ts";

function countByQueue(tasks: readonly ClaimedTask[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { queue } of tasks) counts[queue] = (counts[queue] ?? 0) + 1;
  return counts;
}

export function claims(start: Start): void {
  describe("claims", () => {
    test("a claim returns all that a worker needs", async () => {
      const { port, startedAt } = await start();
      const { id } = await addOne(port, {
        data: "x",
        headers: { h: "1" },
        priority: 3,
        groupKey: "g",
        maxAttempts: 2,
      });
      expect(await claimOne(port)).toEqual({
        id,
        fence: expect.any(Number),
        queue: QUEUE,
        data: "x",
        contentType: "application/json",
        headers: { h: "1" },
        attempt: 1,
        maxAttempts: 2,
        priority: 3,
        groupKey: "g",
        createdAt: startedAt,
      });
    });

    test("a claimed task shows its claim", async () => {
      const { port, clock, startedAt } = await start();
      const { id } = await addOne(port);
      await clock.advance(50);
      await claimOne(port, { worker: "me" });
      expect(await port.task(id)).toMatchObject({
        state: "claimed",
        worker: "me",
        startedAt: startedAt + 50,
        attempt: 1,
      });
    });

    test("a claim takes at most max tasks", async () => {
      const { port } = await start();
      await addNamed(port, numbered(5));
      expect(namesOf(await claim(port, { max: 3 }))).toEqual(["0", "1", "2"]);
      expect(namesOf(await claim(port, { max: 3 }))).toEqual(["3", "4"]);
      expect(await claim(port, { max: 3 })).toEqual([]);
    });

    test("a claim may take 1,000 tasks", async () => {
      const { port } = await start();
      await addNamed(port, numbered(1_001));
      expect(namesOf(await claim(port, { max: 1_000 }))).toEqual(numbered(1_000));
    });

    test("a claim on a queue that does not exist returns nothing", async () => {
      const { port } = await start();
      expect(await port.claim({ queues: ["nowhere"], max: 1, worker: "w", wait: 0 })).toMatchObject({
        tasks: [],
        policies: {},
      });
    });

    test("of many concurrent claims exactly one gets a task", async () => {
      const { port } = await start();
      const added = await addNamed(port, numbered(100));
      const answers = await Promise.all(numbered(50).map((worker) => claim(port, { max: 3, worker })));
      expect(idsOf(answers.flat()).toSorted()).toEqual(added);
      expect(await depths(port)).toEqual({ claimed: 100 });
    });
  });

  describe("claims from several queues", () => {
    test("a claim empties the first queue before it reads the next", async () => {
      const { port } = await start();
      await addNamed(port, ["b1", "b2"], { queue: "b", priority: 9 });
      await addNamed(port, ["a1", "a2"], { queue: "a" });
      expect(namesOf(await claim(port, { queues: ["a", "b"], max: 3 }))).toEqual(["a1", "a2", "b1"]);
    });

    test("a claim with a share first takes that many from each queue, then the rest", async () => {
      const { port } = await start();
      await addNamed(port, numbered(5, "a"), { queue: "a" });
      await addNamed(port, numbered(5, "b"), { queue: "b" });
      await addNamed(port, numbered(1, "c"), { queue: "c" });
      const request = { queues: ["a", "b", "c"], share: 2 };
      expect(namesOf(await claim(port, { ...request, max: 6 })).toSorted()).toEqual([
        "a0",
        "a1",
        "a2",
        "b0",
        "b1",
        "c0",
      ]);
      expect(namesOf(await claim(port, { ...request, max: 3 })).toSorted()).toEqual(["a3", "a4", "b2"]);
    });

    test("the rest of a share is divided equally between the queues that have more tasks", async () => {
      const { port } = await start();
      await addNamed(port, numbered(40, "a"), { queue: "a" });
      await addNamed(port, numbered(40, "b"), { queue: "b" });
      await addNamed(port, numbered(2, "c"), { queue: "c" });
      const tasks = await claim(port, { queues: ["a", "b", "c", "empty"], share: 5, max: 20 });
      expect(countByQueue(tasks)).toEqual({ a: 9, b: 9, c: 2 });
    });

    test("of many queues, the few that have tasks share a claim equally", async () => {
      const { port } = await start();
      const queues = numbered(80, "queue-");
      for (const queue of ["queue-7", "queue-30", "queue-71"])
        await addNamed(port, numbered(20, `${queue} `), { queue });
      const tasks = await claim(port, { queues, share: 1, max: 30 });
      expect(countByQueue(tasks)).toEqual({ "queue-7": 10, "queue-30": 10, "queue-71": 10 });
      for (const queue of ["queue-7", "queue-30", "queue-71"])
        expect(namesOf(tasks.filter((task) => task.queue === queue))).toEqual(numbered(10, `${queue} `));
    });

    test("a claim takes a share of the first of many queues, whatever kind they are of", async () => {
      const { port, clock } = await start();
      const queues = numbered(70, "queue-");
      await port.declare("queue-3", { maxConcurrency: 1 });
      for (const queue of queues) await addNamed(port, ["0", "1", "2"], { queue });
      await addNamed(port, ["late"], { queue: "queue-5", priority: 5, ttl: SECOND });
      await clock.advance(2 * SECOND);
      const tasks = await claim(port, { queues, share: 2, max: 30 });
      expect(tasks).toHaveLength(30);
      expect(tasks.map(({ fence }) => fence)).toEqual(tasks.map((_, i) => tasks[0]!.fence + i));
      expect(countByQueue(tasks)).toMatchObject({ "queue-0": 2, "queue-3": 1, "queue-4": 2, "queue-6": 2 });
      expect(new Set(namesOf(tasks))).toEqual(new Set(["0", "1"]));
    });

    test.each([{ times: 2 }, { times: 2, share: 2 }, { times: 6, share: 2 }])(
      "a claim that names a queue several times gets each of its tasks once: %o",
      async ({ times, share }) => {
        const { port } = await start();
        await addNamed(port, numbered(5));
        await addNamed(port, ["other"], { queue: "other" });
        const queues = [...Array.from({ length: times }, () => QUEUE), "other"];
        const tasks = await claim(port, { queues, share, max: 20 });
        expect(namesOf(tasks).toSorted()).toEqual([...numbered(5), "other"].toSorted());
        expect(await depths(port)).toEqual({ claimed: 5 });
        for (const task of tasks) await ack(port, task);
        expect(await depths(port)).toEqual({ done: 5 });
      },
    );

    test("a claim returns tasks in the order of its queues", async () => {
      const { port } = await start();
      await port.add([newTask({ queue: "a" }), newTask({ queue: "b" })]);
      expect((await claim(port, { queues: ["b", "a"], max: 2 })).map(({ queue }) => queue)).toEqual([
        "b",
        "a",
      ]);
    });
  });
}
