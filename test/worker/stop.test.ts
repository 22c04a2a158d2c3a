import { describe, expect, it, test } from "vitest";
import { ManualClock } from "../../src/testing/index.ts";
import { latch, openStore } from "../stores.ts";

/** A worker whose handler never ends by itself, and the signal that the handler gets. */
async function workForever() {
  const clock = new ManualClock();
  const dibs = await openStore("memory", { clock });
  const queue = dibs.queue("work", { timeout: "1d" });
  const started = latch<AbortSignal>();
  const worker = queue.work((task) => {
    started.open(task.signal);
    return new Promise(() => {});
  });
  await queue.add(1);
  return { clock, queue, worker, signal: await started.promise };
}

describe("worker.stop()", () => {
  test.each([
    { timeout: 100, abortsAfter: 80 },
    { timeout: 1_000, abortsAfter: 800 },
    { timeout: 5_000, abortsAfter: 4_000 },
    { timeout: 25_000, abortsAfter: 20_000 },
    { timeout: 30_000, abortsAfter: 25_000 },
    { timeout: 600_000, abortsAfter: 595_000 },
  ])(
    "stop with a timeout of $timeout ms aborts signals after $abortsAfter ms",
    async ({ timeout, abortsAfter }) => {
      const { clock, queue, worker, signal } = await workForever();
      const stopped = worker.stop({ timeout });
      await clock.advance(abortsAfter - 1);
      expect(signal.aborted).toBe(false);
      await clock.advance(1);
      expect(signal.aborted).toBe(true);
      await clock.advance(timeout - abortsAfter - 1);
      expect((await queue.stats()).depth.claimed).toBe(1);
      await clock.advance(1);
      await stopped;
      expect((await queue.stats()).depth).toMatchObject({ claimed: 0, ready: 1 });
    },
  );

  it("a second stop with a shorter timeout leaves handlers four fifths of it", async () => {
    const { clock, worker, signal } = await workForever();
    const stopped = worker.stop({ timeout: "10m" });
    await clock.advance(1_000);
    void worker.stop({ timeout: "1s" });
    await clock.advance(799);
    expect(signal.aborted).toBe(false);
    await clock.advance(1);
    expect(signal.aborted).toBe(true);
    await clock.advance(200);
    await stopped;
  });

  it("a second stop in the same moment shortens the timeout too", async () => {
    const { clock, queue, worker, signal } = await workForever();
    const stopped = worker.stop({ timeout: "10m" });
    void worker.stop({ timeout: "1s" });
    await clock.advance(800);
    expect(signal.aborted).toBe(true);
    await clock.advance(200);
    await stopped;
    expect((await queue.stats()).depth).toMatchObject({ claimed: 0, ready: 1 });
  });
});
