import { describe, expect, test } from "vitest";
import { eachEvent } from "../../each-event.ts";
import type { NewEntry, SuperviseCall } from "../../../src/core/supervision.ts";
import { QUEUE, SECOND, type Start } from "./kit.ts";

function callOf(holder: string, more: Partial<SuperviseCall> = {}): SuperviseCall {
  return {
    ...{ kind: "pool", name: "mailers", holder, host: "h", pid: 7, queues: [QUEUE] },
    ...{ lease: 10 * SECOND, report: `{"size":1}` },
    ...more,
  };
}

function resized(to: number): NewEntry {
  return { type: "pool.resized", queue: QUEUE, from: to - 1, to, reasons: [`needs ${to}`] };
}

export function supervision(start: Start): void {
  describe("names that one process at a time holds", () => {
    test("the first process gets the name, and another one waits", async () => {
      const { port } = await start();
      expect(await port.supervise(callOf("a"))).toEqual({ held: true, before: null });
      const { held, before } = await port.supervise(callOf("b"));
      expect(held).toBe(false);
      expect(before).toMatchObject({ holder: "a", report: `{"size":1}`, queues: [QUEUE] });
      expect(before!.heldFor).toBeGreaterThan(9 * SECOND);
    });

    test("the holder keeps the name by renewing it, and loses it when its lease ends", async () => {
      const { port, clock } = await start();
      await port.supervise(callOf("a"));
      await clock.advance(8 * SECOND);
      expect((await port.supervise(callOf("a", { report: "2" }))).held).toBe(true);
      await clock.advance(8 * SECOND);
      expect((await port.supervise(callOf("b"))).held).toBe(false);
      await clock.advance(2 * SECOND);
      expect(await port.supervise(callOf("b"))).toMatchObject({
        held: true,
        before: { holder: "a", report: "2", heldFor: 0 },
      });
      expect((await port.supervise(callOf("a"))).held).toBe(false);
    });

    test("a name that is given up is free at once", async () => {
      const { port } = await start();
      await port.supervise(callOf("a"));
      await port.supervise(callOf("a", { lease: 0 }));
      expect((await port.supervised("pool", { name: "mailers" })).items).toMatchObject([
        { heldUntil: null, heldFor: 0 },
      ]);
      expect((await port.supervise(callOf("b"))).held).toBe(true);
    });

    test("of many processes at the same moment, one gets the name", async () => {
      const { port } = await start();
      const all = await Promise.all(
        Array.from({ length: 8 }, (_, i) => port.supervise(callOf(`process-${i}`))),
      );
      expect(all.filter(({ held }) => held)).toHaveLength(1);
    });

    test("pools and alerts have separate names", async () => {
      const { port } = await start();
      await port.supervise(callOf("a"));
      expect((await port.supervise(callOf("b", { kind: "alerts" }))).held).toBe(true);
      expect((await port.supervised("pool")).items).toHaveLength(1);
      expect((await port.supervised("pool", { name: "other" })).items).toEqual([]);
    });

    test("the last thousand decisions are stored, the newest first", async () => {
      const { port } = await start();
      for (let first = 1; first <= 1_030; first += 50) {
        const entries = Array.from({ length: Math.min(50, 1_031 - first) }, (_, i) => resized(first + i));
        await port.supervise(callOf("a", { entries }));
      }
      const decisions = await port.decisions("pool", "mailers", 1_000);
      expect(decisions.map(({ to }) => to)).toEqual(Array.from({ length: 1_000 }, (_, i) => 1_030 - i));
      expect((await port.decisions("pool", "mailers", 3)).map(({ to }) => to)).toEqual([1_030, 1_029, 1_028]);
      expect(decisions[0]).toMatchObject({ type: "pool.resized", from: 1_029, reasons: ["needs 1030"] });
      expect(await port.decisions("pool", "nobody", 10)).toEqual([]);
    });

    test("a decision of a process that does not hold the name is not stored", async () => {
      const { port } = await start();
      await port.supervise(callOf("a"));
      await port.supervise(callOf("b", { entries: [resized(2)] }));
      expect(await port.decisions("pool", "mailers", 10)).toEqual([]);
    });

    test("each decision is an event", async () => {
      const { port } = await start();
      const stop = new AbortController();
      const events = eachEvent(port.events(stop.signal));
      const next = events.next();
      // The registration as a listener is a call like this one.
      await port.queues();
      await port.supervise(callOf("a", { entries: [resized(2)] }));
      expect((await next).value).toMatchObject({
        ...{ type: "pool.resized", queue: QUEUE, name: "mailers", from: 1, to: 2, detail: "needs 2" },
      });
      stop.abort();
    });

    test.each([
      ["kind", { kind: "lamp" as never }],
      ["name", { name: "" }],
      ["name of 201 characters", { name: "n".repeat(201) }],
      ["queues", { queues: [] }],
      ["report", { report: "{" }],
      ["lease", { lease: -1 }],
      ["entry's queue", { entries: [{ ...resized(1), queue: "other" }] }],
      // A thousand of them would not fit into one answer.
      ["entry of 5,000 bytes", { entries: [{ ...resized(1), reasons: ["x".repeat(5_000)] }] }],
    ])("a wrong %s is refused", async (_, wrong) => {
      const { port } = await start();
      await expect(port.supervise(callOf("a", wrong))).rejects.toMatchObject({ code: "INVALID" });
      expect((await port.supervised("pool")).items).toEqual([]);
    });
  });
}
