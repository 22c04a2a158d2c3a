import { describe, expect, test } from "vitest";
import type { QueuePolicy } from "../../../src/core/queue/policy.ts";
import type { Port } from "../../../src/core/port.ts";
import type { ManualClock } from "../../../src/testing/manual-clock.ts";
import {
  addNamed,
  addOne,
  claimNames,
  claimOne,
  failure,
  HOUR,
  MINUTE,
  nack,
  nackWithBackoff,
  QUEUE,
  release,
  SECOND,
  type Start,
  stateOf,
} from "./kit.ts";

export function retry(start: Start): void {
  describe("backoff", () => {
    /** The delays after each failure. */
    async function waits(port: Port, clock: ManualClock, backoff: QueuePolicy["backoff"], failures: number) {
      await port.declare(QUEUE, { backoff, maxAttempts: failures + 1 });
      const { id } = await addOne(port);
      const seen: number[] = [];
      for (let count = 0; count < failures; count++) {
        await nackWithBackoff(port, await claimOne(port));
        const now = (await port.history(id)).at(-1)!.endedAt;
        const wait = (await port.task(id)).dueAt! - now;
        seen.push(wait);
        await clock.advance(wait);
      }
      return seen;
    }

    test("the backoff doubles up to its maximum", async () => {
      const { port, clock } = await start();
      const backoff = { type: "exponential", delay: SECOND, max: 5 * SECOND, jitter: 0 } as const;
      expect(await waits(port, clock, backoff, 5)).toEqual([1_000, 2_000, 4_000, 5_000, 5_000]);
    });

    test("a fixed backoff stays the same", async () => {
      const { port, clock } = await start();
      const backoff = { type: "fixed", delay: 3 * SECOND, max: HOUR, jitter: 0 } as const;
      expect(await waits(port, clock, backoff, 4)).toEqual([3_000, 3_000, 3_000, 3_000]);
    });

    test("the backoff varies within its jitter", async () => {
      const { port, clock } = await start();
      const backoff = { type: "fixed", delay: 100 * SECOND, max: HOUR, jitter: 0.5 } as const;
      const seen = await waits(port, clock, backoff, 20);
      for (const wait of seen) {
        expect(wait).toBeGreaterThanOrEqual(50 * SECOND);
        expect(wait).toBeLessThanOrEqual(150 * SECOND);
      }
      expect(new Set(seen).size).toBeGreaterThan(1);
    });

    test("a nack may set its own delay", async () => {
      const { port, startedAt } = await start();
      const { id } = await addOne(port);
      await nack(port, await claimOne(port), 7 * MINUTE);
      expect((await port.task(id)).dueAt).toBe(startedAt + 7 * MINUTE);
    });

    test("the backoff follows a changed policy", async () => {
      const { port, startedAt } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      await port.declare(QUEUE, { backoff: { type: "fixed", delay: HOUR, max: HOUR, jitter: 0 } });
      await nackWithBackoff(port, held);
      expect((await port.task(id)).dueAt).toBe(startedAt + HOUR);
    });

    test("a task in backoff blocks no other task", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2"]);
      await nack(port, await claimOne(port), HOUR);
      expect(await claimNames(port)).toEqual(["2"]);
    });
  });

  describe("attempts", () => {
    test("attempts are counted from one, by failures", async () => {
      const { port } = await start();
      await addOne(port);
      const seen: number[] = [];
      for (const word of ["nack", "release", "nack", "release", "release", "nack"]) {
        const held = await claimOne(port);
        seen.push(held.attempt);
        await (word === "nack" ? nack(port, held) : release(port, held));
      }
      expect(seen).toEqual([1, 2, 2, 3, 3, 3]);
    });

    test("a task is dead after the queue's maxAttempts", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxAttempts: 3 });
      const { id } = await addOne(port);
      const states = [];
      for (let count = 0; count < 3; count++) states.push(await nack(port, await claimOne(port)));
      expect(states).toEqual(["ready", "ready", "dead"]);
      expect((await port.task(id)).attempt).toBe(3);
      expect(await claimNames(port)).toEqual([]);
    });

    test("a task is dead after its own maxAttempts, if it has one", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxAttempts: 1 });
      const { id } = await addOne(port, { maxAttempts: 2 });
      expect(await nack(port, await claimOne(port))).toBe("ready");
      const second = await claimOne(port);
      expect(second).toMatchObject({ attempt: 2, maxAttempts: 2 });
      expect(await nack(port, second)).toBe("dead");
      expect(await stateOf(port, id)).toBe("dead");
    });

    test("the ledger distinguishes an attempt that its worker ended for its timeout", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      await port.settle(held, { kind: "nack", error: failure("slow"), delay: 0, outcome: "timeout" });
      expect(await port.history(id)).toMatchObject([{ outcome: "timeout", error: { message: "slow" } }]);
      expect((await port.task(id)).attempt).toBe(2);
    });
  });
}
