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
  describe("a claim", () => {
    test("has all a worker needs", async () => {
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

    test("shows on the task", async () => {
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

    test("takes at most max", async () => {
      const { port } = await start();
      await addNamed(port, numbered(5));
      expect(namesOf(await claim(port, { max: 3 }))).toEqual(["0", "1", "2"]);
      expect(namesOf(await claim(port, { max: 3 }))).toEqual(["3", "4"]);
      expect(await claim(port, { max: 3 })).toEqual([]);
    });

    test("may take 1,000 at once", async () => {
      const { port } = await start();
      await addNamed(port, numbered(1_001));
      expect(namesOf(await claim(port, { max: 1_000 }))).toEqual(numbered(1_000));
    });

    test("finds nothing in a queue that nobody made", async () => {
      const { port } = await start();
      expect(await port.claim({ queues: ["nowhere"], max: 1, worker: "w", wait: 0 })).toMatchObject({
        tasks: [],
        policies: {},
      });
    });

    test("gives a task to one of many who ask at once", async () => {
      const { port } = await start();
      const added = await addNamed(port, numbered(100));
      const answers = await Promise.all(numbered(50).map((worker) => claim(port, { max: 3, worker })));
      expect(idsOf(answers.flat()).toSorted()).toEqual(added);
      expect(await depths(port)).toEqual({ claimed: 100 });
    });
  });

  describe("a claim from several queues", () => {
    test("empties the first before it looks at the next", async () => {
      const { port } = await start();
      await addNamed(port, ["b1", "b2"], { queue: "b", priority: 9 });
      await addNamed(port, ["a1", "a2"], { queue: "a" });
      expect(namesOf(await claim(port, { queues: ["a", "b"], max: 3 }))).toEqual(["a1", "a2", "b1"]);
    });

    test("takes a share from each first, then what is left", async () => {
      const { port } = await start();
      await addNamed(port, numbered(5, "a"), { queue: "a" });
      await addNamed(port, numbered(5, "b"), { queue: "b" });
      await addNamed(port, numbered(1, "c"), { queue: "c" });
      const wish = { queues: ["a", "b", "c"], share: 2 };
      expect(namesOf(await claim(port, { ...wish, max: 6 })).toSorted()).toEqual([
        "a0",
        "a1",
        "a2",
        "b0",
        "b1",
        "c0",
      ]);
      expect(namesOf(await claim(port, { ...wish, max: 3 })).toSorted()).toEqual(["a3", "a4", "b2"]);
    });

    test("is answered with the queues in the order of the claim", async () => {
      const { port } = await start();
      await port.add([newTask({ queue: "a" }), newTask({ queue: "b" })]);
      expect((await claim(port, { queues: ["b", "a"], max: 2 })).map(({ queue }) => queue)).toEqual([
        "b",
        "a",
      ]);
    });
  });
}
