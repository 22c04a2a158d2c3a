import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect } from "vitest";
import { open } from "../../src/index.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { freshDatabase } from "../postgres/shared.ts";
import { actsOf, KEPT_LEASE_MS, pause, type Stage, test, until } from "./harness/stage.ts";

const HOUR = 3_600_000;
const MINUTE = 60_000;
/** No poll: if a calendar step blocks a process, it stays blocked, and the test fails. */
const NO_POLL = { poll: "1h" } as const;

describe.concurrent("calendar steps of an hour, forward and back", () => {
  test.for(["a file", "PostgreSQL"])(
    "calendar steps under running processes on %s expire nothing early, and leave nothing stuck",
    async (store, { stage }) => {
      if (store === "PostgreSQL") stage.file = await freshDatabase((undo) => stage.onEnd(undo));
      const dibs = await stage.open(NO_POLL);
      const queue = actsOf(dibs, { lease: KEPT_LEASE_MS });
      await queue.ready;
      const shelf = actsOf(dibs, {}, "shelf");
      const [calendar1, calendar2] = [new Calendar(stage, "one"), new Calendar(stage, "two")];
      const one = await stage.startWorker(
        { ...NO_POLL, work: { name: "one", concurrency: 4 } },
        calendar1.preload,
      );
      const held = await queue.add({ do: "pass", gate: "never" });
      await one.hears("start");
      const two = await stage.startWorker(
        { ...NO_POLL, work: { name: "two", concurrency: 4 } },
        calendar2.preload,
      );
      const mortal = await shelf.add({ do: "echo" }, { ttl: "30m" });
      const delayed = await shelf.add({ do: "echo" }, { delay: "30m" });
      const byHand = await shelf.add({ do: "echo" }, { priority: 1 });
      const [claim] = await shelf.claim({ lease: "5m" });
      expect(claim!.id).toBe(byHand.id);

      for (const [here, there] of [
        [HOUR, -HOUR],
        [-HOUR, HOUR],
        [HOUR, HOUR],
        [-HOUR, -HOUR],
      ] as const) {
        calendar1.set(here);
        calendar2.set(there);
        // A process whose heartbeats stop after the step has lost its claim by the end of this.
        await pause(1.2 * KEPT_LEASE_MS);
        // Both processes see the step, and are working.
        const probes = await queue.addMany(
          Array.from({ length: 8 }, () => ({ data: { do: "sleep" as const, ms: 50 } })),
        );
        await Promise.all(probes.map((probe) => probe.result({ timeout: "20s" })));
        const stepped = [...one.all("start"), ...two.all("start")].filter(({ id }) =>
          probes.some((probe) => probe.id === id),
        );
        for (const { at } of stepped)
          expect(Math.abs(Math.abs((at as number) - Date.now()) - HOUR)).toBeLessThan(MINUTE);

        expect(await held.info()).toMatchObject({ state: "claimed", attempt: 1 });
        expect(await mortal.info()).toMatchObject({ state: "ready" });
        expect(await delayed.info()).toMatchObject({ state: "scheduled" });
        await claim!.extend("5m");

        const before = performance.now();
        const soon = await queue.add({ do: "echo" }, { delay: "200ms" });
        await soon.result({ timeout: "20s" });
        expect(performance.now() - before).toBeGreaterThanOrEqual(200);
      }
      expect(one.all("abort")).toEqual([]);
      expect(await held.history()).toEqual([]);

      // Leases still end: the task of a dead worker returns one lease later.
      await one.kill();
      await two.hears("start", ({ id }) => id === held.id);
      expect(await held.history()).toMatchObject([{ attempt: 1, outcome: "lost" }]);
    },
  );

  for (const store of ["in memory", "on disk"]) {
    test(`calendar steps on a manual clock, ${store}: a task is due when its time has passed`, async ({
      stage,
    }) => {
      const clock = new ManualClock();
      const dibs = await open(store === "on disk" ? stage.file : ":memory:", { clock });
      stage.onEnd(async () => {
        // Closing waits for workers, and workers wait for the clock.
        const closed = dibs.close();
        await clock.advance(MINUTE);
        await closed;
      });
      const queue = dibs.queue("work", { lease: "30s", backoff: { type: "fixed", delay: "1m", jitter: 0 } });
      const shelf = dibs.queue("shelf");
      const began: string[] = [];
      const aborted: string[] = [];
      const worker = queue.work(
        (task) => {
          began.push(task.id);
          task.signal.addEventListener("abort", () => aborted.push(task.id));
          return task.data === "hold" ? new Promise(() => {}) : task.data;
        },
        { concurrency: 4 },
      );
      await worker.ready;
      const held = await queue.add("hold");
      const delayed = await queue.add("delayed", { delay: "10m" });
      const mortal = await shelf.add("mortal", { ttl: "20m" });
      await shelf.add("by hand", { priority: 1 });
      const [claim] = await shelf.claim({ lease: "5m" });
      await clock.advance(100);
      expect(began).toEqual([held.id]);

      // Forward and back for nine minutes: each step is far beyond every configured time.
      for (let minute = 0; minute < 9; minute++) {
        clock.step(minute % 3 === 0 ? -HOUR : HOUR);
        if (minute === 4) clock.step(-4 * HOUR);
        await clock.advance(MINUTE);
        expect(await held.info()).toMatchObject({ state: "claimed", attempt: 1 });
        expect(await delayed.info()).toMatchObject({ state: "scheduled" });
        expect(await mortal.info()).toMatchObject({ state: "ready" });
        if (minute < 4) await claim!.progress(0.5);
      }
      // The manual claim was not extended: its five minutes have passed.
      await expect(claim!.progress(0.5)).rejects.toMatchObject({ code: "CLAIM_LOST" });
      expect(aborted).toEqual([]);
      await clock.advance(MINUTE);
      // A store on disk answers in real time, and the clock does not wait for it.
      await until("it is done", async () => {
        await clock.advance(100);
        return (await delayed.info()).state === "done";
      });
      expect(began).toEqual([held.id, delayed.id]);
      expect(await mortal.info()).toMatchObject({ state: "ready" });
      clock.step(-HOUR);
      await clock.advance(10 * MINUTE);
      await until("it has expired", async () => {
        await clock.advance(100);
        return (await mortal.info()).state === "expired";
      });
    });
  }
});

/** The calendar of one process. */
class Calendar {
  readonly preload: { execArgv: string[]; env: NodeJS.ProcessEnv };
  readonly #file: string;

  constructor(stage: Stage, name: string) {
    this.#file = join(stage.folder, `calendar-${name}`);
    this.set(0);
    const module = fileURLToPath(new URL("programs/shift-calendar.ts", import.meta.url));
    this.preload = { execArgv: ["--import", module], env: { DIBS_TEST_CALENDAR: this.#file } };
  }

  set(shift: number): void {
    writeFileSync(`${this.#file}.new`, `${shift}`);
    renameSync(`${this.#file}.new`, this.#file);
  }
}
