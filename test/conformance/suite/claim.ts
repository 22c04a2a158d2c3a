import { describe, expect, test } from "vitest";
import {
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
  type Start,
} from "./kit.ts";

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
