import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import type { TravellingTask } from "../../../src/core/task.ts";
import { verificationQueue } from "../../../src/core/verification.ts";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimOne,
  depths,
  HOUR,
  MINUTE,
  newTask,
  QUEUE,
  refused,
  SECOND,
  type Start,
  stateOf,
} from "./kit.ts";

const VERIFIERS = verificationQueue(QUEUE);

async function depart(from: Port, to: Port, queue = QUEUE): Promise<TravellingTask[]> {
  return from.depart(queue, (await to.arrive([])).store, 100);
}

async function moveAll(from: Port, to: Port, queue = QUEUE): Promise<void> {
  for (let tasks = await depart(from, to, queue); tasks.length > 0; tasks = await depart(from, to, queue)) {
    await to.arrive(tasks);
    await from.gone(tasks.map(({ origin }) => ({ id: origin, cancelled: false })));
  }
}

async function park(port: Port, timeout: number | null = null): Promise<void> {
  const held = await claimOne(port);
  await port.step(held, "plan", "1");
  await port.settle(held, { kind: "park", signal: "approval", timeout });
}

/** A task of a flow moves as it is: what it waits for, what it left, and the result that nobody has judged. */
export function moveFlows(start: Start): void {
  const two = async () => {
    const [here, there] = [await start(), await start()];
    await there.clock.advance(7 * MINUTE);
    const policy = { verified: true, backoff: { type: "fixed", delay: 0, max: 0, jitter: 0 } } as const;
    return {
      here,
      there,
      from: here.port,
      to: there.port,
      /** Not before a test has parked what it parks: that is no result. */
      verify: async () => {
        await here.port.declare(QUEUE, policy);
        await there.port.declare(QUEUE, policy);
      },
    };
  };

  describe("a parked task that moves to another store", () => {
    test("waits there for the same signal, with its steps, and its group behind it", async () => {
      const { from, to } = await two();
      const { id } = await addOne(from, { data: "a", groupKey: "g" });
      await addNamed(from, ["b"], { groupKey: "g" });
      await park(from);
      await moveAll(from, to);
      expect(await depths(from)).toEqual({});
      expect(await depths(to)).toEqual({ parked: 1, waiting: 1 });
      expect(await to.task(id)).toMatchObject({ state: "parked", waitsFor: "approval", dueAt: null });
      expect(await claim(to)).toEqual([]);
      expect(await to.signal(id, "approval", '"yes"')).toBe(true);
      expect(await claimOne(to)).toMatchObject({ data: "a", attempt: 1, stepped: true });
      expect(await to.steps(id)).toEqual([
        { kind: "signal", name: "approval", value: '"yes"' },
        { kind: "step", name: "plan", value: "1" },
      ]);
      expect(await to.history(id)).toMatchObject([{ outcome: "parked" }]);
    });

    test("waits no longer than it would have here", async () => {
      const { here, there, from, to } = await two();
      const { id } = await addOne(from);
      await park(from, HOUR);
      await here.clock.advance(20 * MINUTE);
      await moveAll(from, to);
      expect((await to.task(id)).dueAt).toBe(there.clock.read().wall + 40 * MINUTE);
      await there.clock.advance(40 * MINUTE);
      await claimOne(to);
      expect(await to.steps(id)).toMatchObject([{ kind: "lapsed", name: "approval" }, { name: "plan" }]);
    });

    test("has lapsed when it arrives, where its time was over on its way", async () => {
      const { here, from, to } = await two();
      const { id } = await addOne(from);
      await park(from, SECOND);
      await depart(from, to);
      await here.clock.advance(MINUTE);
      await moveAll(from, to);
      await claimOne(to);
      expect(await to.steps(id)).toMatchObject([{ kind: "lapsed" }, { name: "plan" }]);
    });

    test("takes no signal on its way, and says so: it would be lost", async () => {
      const { from, to } = await two();
      const { id } = await addOne(from);
      await park(from);
      await depart(from, to);
      expect(await from.task(id)).toMatchObject({ state: "parked", waitsFor: "approval" });
      await refused(() => from.signal(id, "approval", null), "UNAVAILABLE", "on its way");
      await moveAll(from, to);
      expect(await to.signal(id, "approval", null)).toBe(true);
    });
  });

  describe("a result that waits for a verdict when its task moves to another store", () => {
    test("is judged there, and shows, with what it adds, when it was accepted", async () => {
      const { here, there, from, to, verify } = await two();
      await verify();
      const { id } = await addOne(from);
      const held = await claimOne(from, { worker: "w" });
      await here.clock.advance(9 * SECOND);
      await ack(from, held, '"sent"', [newTask({ queue: "next", data: "n" })]);
      await moveAll(from, to);
      await moveAll(from, to, VERIFIERS);
      expect(await depths(from)).toEqual({});
      expect(await to.task(id)).toMatchObject({
        state: "verifying",
        result: null,
        worker: "w",
        startedAt: there.clock.read().wall - 9 * SECOND,
      });
      const asking = await claim(to, { queues: [VERIFIERS], max: 10 });
      // What was asked in the other store is of nobody here; whoever asks for it learns that.
      const verdicts = await Promise.all(
        asking.map(async (ask) => {
          const of = JSON.parse(ask.data as string) as { id: string; fence: number };
          const found = await to.verifying(of).catch(() => undefined);
          await to.settle(ask, { kind: "accept", of });
          return found?.result;
        }),
      );
      expect(verdicts.filter((result) => result !== undefined)).toEqual(['"sent"']);
      expect(await to.task(id)).toMatchObject({ state: "done", result: '"sent"' });
      expect(await depths(to, "next")).toEqual({ ready: 1 });
      expect(await to.history(id)).toMatchObject([{ outcome: "done", worker: "w" }]);
    });

    test("is not judged here any more, and nothing comes of a verdict that is late", async () => {
      const { from, to, verify } = await two();
      await verify();
      const { id } = await addOne(from);
      await ack(from, await claimOne(from), "1");
      const asking = await claimOne(from, { queues: [VERIFIERS] });
      const of = JSON.parse(asking.data as string) as { id: string; fence: number };
      await depart(from, to);
      await refused(() => from.verifying(of), "TASK_NOT_FOUND");
      await from.settle(asking, { kind: "refuse", of: { ...of, queue: QUEUE, attempt: 1 }, feedback: "no" });
      expect(await stateOf(from, id)).toBe("verifying");
      await moveAll(from, to);
      expect(await stateOf(to, id)).toBe("verifying");
      expect(await to.history(id)).toEqual([]);
    });

    test("does not lose the one who asks for its verdict before it goes", async () => {
      const { from, to, verify } = await two();
      await verify();
      const { id } = await addOne(from);
      await ack(from, await claimOne(from), "1");
      expect(await depart(from, to, VERIFIERS)).toEqual([]);
      expect(await stateOf(from, id)).toBe("verifying");
    });

    test("keeps its group waiting; where that has another head, it is to be done again", async () => {
      const { from, to, verify } = await two();
      await verify();
      await addNamed(from, ["a", "b"], { groupKey: "g" });
      await addNamed(from, ["c"], { groupKey: "h" });
      for (const held of await claim(from, { max: 2 })) await ack(from, held);
      await addNamed(to, ["first"], { groupKey: "h" });
      await moveAll(from, to);
      expect(await depths(to)).toEqual({ verifying: 1, waiting: 2, ready: 1 });
      const first = await claimOne(to);
      expect(first.data).toBe("first");
      expect(await claim(to)).toEqual([]);
      await to.cancel(first.id);
      await to.settle(first, { kind: "release", started: true });
      expect(await claimOne(to)).toMatchObject({ data: "c", attempt: 1 });
    });

    test("was refused before: the reason goes with it", async () => {
      const { from, to, verify } = await two();
      await verify();
      const { id } = await addOne(from);
      await ack(from, await claimOne(from), "1");
      const asking = await claimOne(from, { queues: [VERIFIERS] });
      const of = { ...(JSON.parse(asking.data as string) as { id: string; fence: number }), queue: QUEUE };
      await from.settle(asking, { kind: "refuse", of: { ...of, attempt: 1 }, feedback: "too short" });
      await moveAll(from, to);
      expect(await claimOne(to)).toMatchObject({ attempt: 2, feedback: "too short" });
      expect(await to.history(id)).toMatchObject([{ outcome: "refused" }]);
    });
  });
}
