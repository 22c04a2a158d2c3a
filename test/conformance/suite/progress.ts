import { describe, expect, test } from "vitest";
import { ack, addOne, claimOne, failure, nack, type Start } from "./kit.ts";

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

    test("progress changes nothing else", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      const before = await port.task(id);
      await port.progress(held, 0.5, "half");
      expect(await port.task(id)).toEqual({ ...before, progress: { value: 0.5, note: "half" } });
      expect(await ack(port, held)).toBe("done");
    });

    test("the next attempt starts without progress", async () => {
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
