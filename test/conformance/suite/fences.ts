import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import type { ClaimedTask } from "../../../src/core/task/task.ts";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimOne,
  depths,
  failure,
  nack,
  numbered,
  QUEUE,
  refused,
  reject,
  release,
  SECOND,
  type Start,
  stateOf,
  type World,
} from "./kit.ts";

/** Every call that a holder can make. */
const VERBS: [string, (port: Port, held: ClaimedTask) => Promise<unknown>][] = [
  ["ack", (port, held) => ack(port, held, "late", [{ queue: "next", data: "late" }])],
  ["nack", (port, held) => nack(port, held, 0, failure("late"))],
  ["reject", (port, held) => reject(port, held, failure("late"))],
  ["release", (port, held) => release(port, held)],
  ["extend", (port, held) => port.extend(held, 60 * SECOND)],
  ["progress", (port, held) => port.progress(held, 0.5, "late")],
];

/** Every way in which a claim becomes invalid. */
const WAYS: [string, (world: World, held: ClaimedTask) => Promise<unknown>][] = [
  ["was acked", ({ port }, held) => ack(port, held, "first")],
  ["was nacked", ({ port }, held) => nack(port, held, 5 * SECOND)],
  ["was rejected", ({ port }, held) => reject(port, held)],
  ["was released", ({ port }, held) => release(port, held)],
  [
    "was released and claimed by another worker",
    ({ port }, held) => release(port, held).then(() => claimAgain(port, held)),
  ],
  ["lost its lease", ({ clock }) => clock.advance(30 * SECOND)],
  [
    "lost its lease and was claimed by another worker",
    async ({ port, clock }, held) => {
      await clock.advance(30 * SECOND);
      await claimAgain(port, held);
    },
  ],
];

function claimAgain(port: Port, { queue }: ClaimedTask): Promise<ClaimedTask> {
  return claimOne(port, { queues: [queue], worker: "b" });
}

export function fences(start: Start): void {
  describe.each(WAYS)("a claim that %s", (_, lose) => {
    const together = start.together();

    test.each(VERBS)("%s after the claim ended is refused and changes nothing", async (verb, say) => {
      const world = together();
      const { port } = world;
      const { id } = await addOne(port, { queue: verb });
      const held = await claimOne(port, { queues: [verb], worker: "a" });
      await lose(world, held);
      const before = { task: await port.task(id), history: await port.history(id) };
      await refused(() => say(port, held), "CLAIM_LOST", id);
      expect({ task: await port.task(id), history: await port.history(id) }).toEqual(before);
      expect(await depths(port, "next")).toEqual({});
    });
  });

  describe("fences", () => {
    test("fences only grow, over all claims of a store", async () => {
      const { port, clock } = await start();
      const seen: number[] = [];
      await addNamed(port, numbered(3), { queue: "a" });
      await addNamed(port, numbered(3), { queue: "b", maxAttempts: 100 });
      for (const queue of ["b", "a", "b", "a", "b"]) {
        const held = await claimOne(port, { queues: [queue] });
        seen.push(held.fence);
        if (queue === "b") await nack(port, held);
        await clock.advance(SECOND);
      }
      expect(seen.toSorted((a, b) => a - b)).toEqual(seen);
      expect(new Set(seen).size).toBe(seen.length);
    });

    test("fences grow within one claim of many tasks, in the order of the tasks", async () => {
      const { port } = await start();
      await addNamed(port, numbered(20));
      const held = (await claim(port, { max: 20 })).map(({ fence }) => fence);
      expect(held.toSorted((a, b) => a - b)).toEqual(held);
      expect(new Set(held).size).toBe(20);
    });

    test("a fence is valid only for its own task", async () => {
      const { port } = await start();
      await addNamed(port, ["a", "b"]);
      const [a, b] = await claim(port, { max: 2 });
      await refused(() => ack(port, { ...a!, fence: b!.fence }), "CLAIM_LOST");
      await refused(() => ack(port, { ...a!, fence: a!.fence + 1_000 }), "CLAIM_LOST");
      expect(await depths(port)).toEqual({ claimed: 2 });
    });

    test("the fence of an unknown task is CLAIM_LOST", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      await port.drop(QUEUE);
      await refused(() => ack(port, held), "CLAIM_LOST", id);
      await refused(() => ack(port, { ...held, id: "01980000-0000-7000-8000-000000000000" }), "CLAIM_LOST");
    });

    test("a lost claim stays lost when its task is ready again", async () => {
      const { port, clock } = await start();
      await addOne(port);
      const first = await claimOne(port);
      await clock.advance(30 * SECOND);
      const second = await claimOne(port);
      await release(port, second);
      await refused(() => ack(port, first), "CLAIM_LOST");
      expect(second.fence).toBeGreaterThan(first.fence);
    });
  });

  describe("concurrent settlements", () => {
    test("of several settlements of one claim at the same moment exactly one counts", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      const words = await Promise.allSettled([
        ack(port, held, "1"),
        ack(port, held, "2"),
        nack(port, held),
        release(port, held),
      ]);
      expect(words.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected", "rejected"]);
      expect(await port.task(id)).toMatchObject({ state: "done", result: "1" });
      expect(await port.history(id)).toHaveLength(1);
    });

    test("a refused settlement does not affect the others", async () => {
      const { port } = await start();
      const [a, b] = await addNamed(port, ["a", "b"]);
      const [first, second] = await claim(port, { max: 2 });
      const lost = refused(() => ack(port, { ...first!, fence: 0 }), "CLAIM_LOST");
      const kept = [ack(port, second!), addOne(port, { data: "c" })];
      await lost;
      await Promise.all(kept);
      expect(await stateOf(port, a!)).toBe("claimed");
      expect(await stateOf(port, b!)).toBe("done");
      expect(await depths(port)).toEqual({ claimed: 1, done: 1, ready: 1 });
    });
  });
}
