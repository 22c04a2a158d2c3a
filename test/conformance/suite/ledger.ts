import { describe, expect, test } from "vitest";
import {
  ack,
  addOne,
  claimOne,
  failure,
  HOUR,
  nack,
  refused,
  reject,
  release,
  SECOND,
  type Start,
  passLong,
} from "./kit.ts";

export function ledger(start: Start): void {
  describe("ledger", () => {
    test("the ledger has a complete row for each ended attempt, oldest first", async () => {
      const { port, clock, startedAt } = await start();
      const { id } = await addOne(port);
      const fences: number[] = [];
      const words = [nack, reject] as const;
      for (const [index, say] of words.entries()) {
        const held = await claimOne(port, { worker: `w${index}` });
        fences.push(held.fence);
        await clock.advance(SECOND);
        const error = { name: "TypeError", message: `line ${index + 7} of 'x'`, stack: "at f\nat g" };
        await (say === nack ? nack(port, held, 0, error) : reject(port, held, error));
      }
      const error = { name: "TypeError", stack: "at f\nat g", fingerprint: "TypeError: line <n> of <text>" };
      expect(await port.history(id)).toEqual([
        {
          attempt: 1,
          fence: fences[0],
          worker: "w0",
          startedAt,
          endedAt: startedAt + SECOND,
          outcome: "failed",
          error: { ...error, message: "line 7 of 'x'" },
        },
        {
          attempt: 2,
          fence: fences[1],
          worker: "w1",
          startedAt: startedAt + SECOND,
          endedAt: startedAt + 2 * SECOND,
          outcome: "rejected",
          error: { ...error, message: "line 8 of 'x'" },
        },
      ]);
      expect((await port.task(id)).error).toEqual({ ...error, message: "line 8 of 'x'" });
    });

    test("the ledger has a row for a success at the first attempt", async () => {
      const { port, clock, startedAt } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port, { worker: "w" });
      await clock.advance(SECOND);
      await ack(port, held, "r");
      expect(await port.history(id)).toEqual([
        {
          attempt: 1,
          fence: held.fence,
          worker: "w",
          startedAt,
          endedAt: startedAt + SECOND,
          outcome: "done",
          error: null,
        },
      ]);
    });

    test("the ledger distinguishes a success from the failures before it", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      await nack(port, await claimOne(port, { worker: "a" }));
      await release(port, await claimOne(port, { worker: "b" }));
      await ack(port, await claimOne(port, { worker: "c" }));
      const rows = await port.history(id);
      expect(rows.map(({ attempt, worker, outcome }) => [attempt, worker, outcome])).toEqual([
        [1, "a", "failed"],
        [2, "b", "released"],
        [2, "c", "done"],
      ]);
      expect(await port.task(id)).toMatchObject({ attempt: 2, worker: "c" });
    });

    test("the ledger has no row for an attempt in progress", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      await claimOne(port);
      expect(await port.history(id)).toEqual([]);
    });

    test("the ledger cuts long errors", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      await reject(port, await claimOne(port), {
        name: "E",
        message: "x".repeat(100_000),
        stack: "y".repeat(100_000),
      });
      const { error } = (await port.history(id))[0]!;
      expect(error!.message).toBe("x".repeat(8 * 1024));
      expect(error!.stack).toBe("y".repeat(16 * 1024));
      expect(error!.fingerprint.length).toBeLessThanOrEqual(160);
    });

    test("the ledger stores an error without a stack, and one without a message", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      await nack(port, await claimOne(port), 0, { name: "E", message: "m", stack: null });
      await nack(port, await claimOne(port), 0, { name: "", message: "", stack: "" });
      const rows = await port.history(id);
      expect(rows[0]!.error).toEqual({ name: "E", message: "m", stack: null, fingerprint: "E: m" });
      expect(rows[1]!.error).toMatchObject({ name: "Error", message: "" });
    });

    test("the ledger stores errors in any script", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      await nack(port, await claimOne(port), 0, failure("失敗 🐝 \u0000 'x'"));
      expect((await port.history(id))[0]!.error!.message).toBe("失敗 🐝 \u0000 'x'");
    });

    test("the ledger keeps many attempts over a long time", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { maxAttempts: 100 });
      for (let count = 0; count < 20; count++) {
        await nack(port, await claimOne(port), HOUR);
        await passLong(clock, HOUR);
      }
      const rows = await port.history(id);
      expect(rows.map(({ attempt }) => attempt)).toEqual(Array.from({ length: 20 }, (_, index) => index + 1));
    });

    test("the history of an unknown task is TASK_NOT_FOUND", async () => {
      const { port } = await start();
      await refused(() => port.history("01980000-0000-7000-8000-000000000000"), "TASK_NOT_FOUND");
    });
  });
}
