import { describe, expect, test } from "vitest";
import { LIMITS } from "../../../src/core/input/limits.ts";
import { ack, addOne, claimOne, failure, nack, QUEUE, refused, reject, type Start } from "./kit.ts";

export function progress(start: Start): void {
  describe("progress", () => {
    test("a task shows its latest progress", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      expect((await port.task(id)).progress).toBeNull();
      await port.progress(held, 0.25, "drafting 草稿");
      expect((await port.task(id)).progress).toEqual({ value: 0.25, note: "drafting 草稿" });
      await port.progress(held, 1, null);
      expect((await port.task(id)).progress).toEqual({ value: 1, note: null });
      await port.progress(held, 0, "");
      expect((await port.task(id)).progress).toEqual({ value: 0, note: "" });
    });

    test("reporting progress changes nothing else", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      const before = await port.task(id);
      await port.progress(held, 0.5, "half");
      expect(await port.task(id)).toEqual({ ...before, progress: { value: 0.5, note: "half" } });
      expect(await ack(port, held)).toBe("done");
    });

    test("a task keeps what its attempts log, each with its own lines", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      expect("log" in (await port.task(id))).toBe(false);
      await port.progress(held, null, null, "fetched 12 pages 草稿 \u0000");
      await port.progress(held, 0.5, "half", "parsed");
      const running = await port.task(id);
      expect(running.progress).toEqual({ value: 0.5, note: "half" });
      expect(running.log?.map(({ text }) => text)).toEqual(["fetched 12 pages 草稿 \u0000", "parsed"]);
      expect(running.log![0]!.at).toBeGreaterThanOrEqual(running.startedAt!);
      await nack(port, held, 0, failure());
      expect("log" in (await port.task(id))).toBe(false);
      const again = await claimOne(port);
      await port.progress(again, null, null, "once more");
      expect((await port.task(id)).progress).toBeNull();
      expect(await ack(port, again)).toBe("done");
      const log = (await port.history(id)).map((attempt) => attempt.log?.map(({ text }) => text));
      expect(log).toEqual([["fetched 12 pages 草稿 \u0000", "parsed"], ["once more"]]);
    });

    test("an attempt that logs nothing has no log", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      await ack(port, await claimOne(port));
      expect("log" in (await port.history(id))[0]!).toBe(false);
    });

    test("a task keeps its last log lines, and cuts long ones", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      const lines = LIMITS.logLines + 20;
      await Promise.all(
        Array.from({ length: lines }, (_, n) =>
          port.progress(held, null, null, `line ${n} ${"x".repeat(3_000)}`),
        ),
      );
      await ack(port, held);
      const log = (await port.history(id))[0]!.log!;
      expect(log).toHaveLength(LIMITS.logLines);
      expect(log.at(-1)!.text).toBe(`line ${lines - 1} ${"x".repeat(3_000)}`.slice(0, LIMITS.logLine));
      expect(log[0]!.text.startsWith("line 20 ")).toBe(true);
    });

    test("logging is refused after the claim was lost, and without a text", async () => {
      const { port } = await start();
      await addOne(port);
      const held = await claimOne(port);
      await refused(() => port.progress(held, null, null), "INVALID");
      await refused(() => port.progress(held, null, null, 7 as never), "INVALID");
      await ack(port, held);
      await refused(() => port.progress(held, null, null, "late"), "CLAIM_LOST");
    });

    test("the log is removed with its task", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { idempotencyKey: "k" });
      const held = await claimOne(port);
      await port.progress(held, null, null, "soon dead");
      await reject(port, held);
      expect((await port.history(id))[0]!.log).toHaveLength(1);
      expect(await port.discard(QUEUE, {})).toBe(1);
      await refused(() => port.history(id), "TASK_NOT_FOUND");
    });

    test("the next attempt of a task starts without progress", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      await port.progress(held, 0.5, "half");
      await nack(port, held, 0, failure());
      expect((await port.task(id)).progress).toBeNull();
      await claimOne(port);
      expect((await port.task(id)).progress).toBeNull();
    });
  });
}
