import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import type { ClaimedTask } from "../../../src/core/task/task.ts";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  depths,
  HOUR,
  joinWorker,
  makeDead,
  nack,
  newTask,
  passLong,
  refused,
  reject,
  release,
  SECOND,
  type Start,
  stateOf,
} from "./kit.ts";

const WORDS: [string, (port: Port, held: ClaimedTask) => Promise<unknown>, string][] = [
  ["ack", (port, held) => ack(port, held, "result", [newTask({ queue: "next" })]), "cancelled"],
  ["nack", (port, held) => nack(port, held), "failed"],
  ["nack with a delay", (port, held) => nack(port, held, HOUR), "failed"],
  ["reject", (port, held) => reject(port, held), "cancelled"],
  ["release", (port, held) => release(port, held), "cancelled"],
];

export function cancel(start: Start): void {
  describe("cancelling a task that is not claimed", () => {
    test("cancelling a ready task ends it at once", async () => {
      const { port, startedAt } = await start();
      const { id } = await addOne(port);
      expect(await port.cancel(id)).toBe("cancelled");
      expect(await port.task(id)).toMatchObject({ state: "cancelled", endedAt: startedAt, attempt: 0 });
      expect(await claim(port)).toEqual([]);
    });

    test("cancelling a scheduled task ends it at once", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { delay: HOUR });
      expect(await port.cancel(id)).toBe("cancelled");
      await passLong(clock, HOUR);
      expect(await claim(port)).toEqual([]);
    });

    test("cancelling a task that waits in its group ends it at once", async () => {
      const { port } = await start();
      const [, second] = await addNamed(port, ["1", "2", "3"], { groupKey: "g" });
      expect(await port.cancel(second!)).toBe("cancelled");
      await ack(port, await claimOne(port));
      expect(await claimNames(port)).toEqual(["3"]);
    });

    test("cancelling a task that has ended changes nothing", async () => {
      const { port } = await start();
      const dead = await makeDead(port);
      expect(await port.cancel(dead)).toBe("dead");
      const { id } = await addOne(port);
      await ack(port, await claimOne(port), "r");
      expect(await port.cancel(id)).toBe("done");
      expect(await port.task(id)).toMatchObject({ state: "done", result: "r", cancelRequested: false });
    });

    test("cancelling an unknown task is TASK_NOT_FOUND", async () => {
      const { port } = await start();
      const nobody = "01980000-0000-7000-8000-000000000000";
      await refused(() => port.cancel(nobody), "TASK_NOT_FOUND", nobody);
    });
  });

  describe("what a holder learns of a cancel", () => {
    test("extend and progress report a requested cancel", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      expect(await port.extend(held, HOUR)).toEqual({ cancelRequested: false });
      expect(await port.progress(held, 0.5, null)).toEqual({ cancelRequested: false });
      await port.cancel(id);
      expect(await port.extend(held, HOUR)).toEqual({ cancelRequested: true });
      expect(await port.progress(held, 0.6, null)).toEqual({ cancelRequested: true });
      expect(await port.progress(held, null, null, "a line")).toEqual({ cancelRequested: true });
    });
  });

  describe("cancelling a claimed task", () => {
    test("a cancelled task stays with its holder, who gets one notice", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      const { id } = await addOne(port);
      const held = await worker.claimOne();
      expect(await port.cancel(id)).toBe("claimed");
      expect(await worker.notices.next()).toMatchObject({ kind: "cancel", id, fence: held.fence });
      expect(await port.cancel(id)).toBe("claimed");
      expect(await port.task(id)).toMatchObject({ state: "claimed", cancelRequested: true });
      await port.progress(held, 0.5, "tidying up");
      await port.extend(held, 60 * SECOND);
      expect(worker.notices.all).toHaveLength(1);
    });

    test.each(WORDS)("a cancelled task ends cancelled after its holder's %s", async (_, say, outcome) => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port, { worker: "w" });
      await port.cancel(id);
      expect(await say(port, held)).toBe("cancelled");
      expect(await port.task(id)).toMatchObject({ state: "cancelled", result: null, error: null });
      expect(await port.end(id)).toMatchObject({ state: "cancelled", result: null });
      expect(await port.history(id)).toMatchObject([{ worker: "w", attempt: 1, outcome }]);
      expect(await depths(port, "next")).toEqual({});
    });

    test("a cancelled task ends cancelled when its lease is lost", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port);
      await claimOne(port);
      await port.cancel(id);
      await clock.advance(30 * SECOND);
      expect(await stateOf(port, id)).toBe("cancelled");
      expect(await port.history(id)).toMatchObject([{ outcome: "lost" }]);
    });

    test("a cancelled task ends cancelled when its worker leaves", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      const { id } = await addOne(port);
      await worker.claimOne();
      await port.cancel(id);
      await port.leave(worker.session);
      expect(await stateOf(port, id)).toBe("cancelled");
    });

    test("a cancelled task blocks its group until its claim ends", async () => {
      const { port } = await start();
      const [first] = await addNamed(port, ["1", "2"], { groupKey: "g" });
      const held = await claimOne(port);
      await port.cancel(first!);
      expect(await claim(port)).toEqual([]);
      await release(port, held);
      expect(await claimNames(port)).toEqual(["2"]);
    });
  });
}
