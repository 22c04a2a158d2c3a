import { describe, expect, test } from "vitest";
import { z } from "zod";
import { defineQueue, type Dibs, PLANNED_HEADER, SCHEDULE_HEADER } from "../../src/index.ts";
import { ManualClock } from "../../src/testing/index.ts";
import { openStore, STORES, type StoreName } from "../stores.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

async function setUp(
  store: StoreName,
  at = "2026-01-01T00:00:00Z",
): Promise<{ dibs: Dibs; clock: ManualClock }> {
  const clock = new ManualClock(new Date(at));
  return { dibs: await openStore(store, { clock }), clock };
}

async function planned(dibs: Dibs, queue = "reports"): Promise<string[]> {
  const { tasks } = await dibs.queue(queue).tasks({ state: "ready", limit: 1_000 });
  return tasks.map(({ headers }) => headers[PLANNED_HEADER]!.slice(0, 16));
}

/** No process was running. */
async function sleepThrough(clock: ManualClock, ms: number): Promise<void> {
  clock.sleep(ms);
  await clock.advance(2_000);
}

describe.each(STORES)("schedules on %s", (store) => {
  test("a schedule adds its task with its options and the schedule's name", async () => {
    const { dibs, clock } = await setUp(store);
    const when = { cron: "0 3 * * *", tz: "Europe/London" };
    const nightly = dibs.schedule("nightly", when, {
      queue: "reports",
      data: { kind: "sales" },
      priority: 7,
    });
    await nightly.ready;
    expect(await nightly.info()).toMatchObject({
      ...{ name: "nightly", cron: "0 3 * * *", tz: "Europe/London", every: null, missed: "once" },
      ...{ queue: "reports", paused: false, lastAt: null, error: null },
    });
    const { next } = await nightly.info();
    expect(next.map((date) => date.toISOString())).toEqual(
      [1, 2, 3, 4, 5].map((day) => `2026-01-0${day}T03:00:00.000Z`),
    );
    await sleepThrough(clock, 3 * HOUR);
    const [claim] = await dibs.queue("reports").claim();
    expect(claim).toMatchObject({ data: { kind: "sales" }, priority: 7 });
    expect(claim!.headers).toEqual({
      [SCHEDULE_HEADER]: "nightly",
      [PLANNED_HEADER]: "2026-01-01T03:00:00.000Z",
    });
    expect((await nightly.info()).lastAt).toEqual(new Date("2026-01-01T03:00:00Z"));
  });

  test("operations of one schedule handle take effect in the order of the calls", async () => {
    const { dibs } = await setUp(store);
    const schedule = dibs.schedule("s", { every: "10m" }, { queue: "reports" });
    const [, info, , again] = await Promise.all([
      schedule.pause(),
      schedule.info(),
      schedule.resume(),
      schedule.info(),
    ]);
    expect(info).toMatchObject({ paused: true, next: [] });
    expect(again.paused).toBe(false);
    expect(await schedule.delete()).toBe(true);
    expect(await dibs.schedules()).toEqual([]);
    await expect(schedule.info()).rejects.toMatchObject({ code: "INVALID" });
  });
});

describe("schedules", () => {
  test("a schedule continues without the process that defined it, and is found by its name", async () => {
    const { dibs, clock } = await setUp("memory");
    await dibs.schedule("s", { every: "1h" }, { queue: "reports" }).ready;
    await sleepThrough(clock, HOUR);
    expect(await planned(dibs)).toEqual(["2026-01-01T01:00"]);
    await dibs.schedule("s").pause();
    await sleepThrough(clock, 5 * HOUR);
    await dibs.schedule("s").resume();
    await sleepThrough(clock, HOUR);
    expect(await planned(dibs)).toEqual(["2026-01-01T01:00", "2026-01-01T07:00"]);
  });

  test("repeating a definition after a restart changes nothing; another definition replaces it", async () => {
    const { dibs, clock } = await setUp("sqlite");
    await dibs.schedule("s", { every: "1h" }, { queue: "reports", data: 1 }).ready;
    clock.sleep(HOUR / 2);
    const same = dibs.schedule("s", { every: "60m" }, { queue: "reports", data: 1 });
    expect((await same.info()).next[0]).toEqual(new Date("2026-01-01T01:00:00Z"));
    const other = dibs.schedule("s", { every: "2h" }, { queue: "reports", data: 1 });
    expect((await other.info()).next[0]).toEqual(new Date("2026-01-01T02:30:00Z"));
  });

  test.each([
    ["skip", []],
    ["once", ["2026-01-01T03:00"]],
    ["all", ["2026-01-01T01:00", "2026-01-01T02:00", "2026-01-01T03:00"]],
  ] as const)("missed firings are treated according to missed: %s", async (missed, times) => {
    const { dibs, clock } = await setUp("memory");
    await dibs.schedule("s", { every: "1h", missed }, { queue: "reports" }).ready;
    await sleepThrough(clock, 3.5 * HOUR);
    expect(await planned(dibs)).toEqual(times);
  });

  // London: clocks go to 02:00 after 00:59:59 UTC on 29 March 2026, and back to 01:00 after 00:59:59 UTC on 25 October.
  test.each([
    ["a time of day in spring", "0 9 * * *", "2026-03-28", ["28T09:00", "29T08:00", "30T08:00"]],
    ["a time that is skipped", "30 1 * * *", "2026-03-28", ["28T01:30", "29T01:00", "30T00:30"]],
    ["a time of day in autumn", "0 9 * * *", "2026-10-24", ["24T08:00", "25T09:00", "26T09:00"]],
    ["a time that comes twice", "30 1 * * *", "2026-10-24", ["24T00:30", "25T00:30", "26T01:30"]],
  ])("a schedule follows London's clocks: %s", async (_, cron, from, times) => {
    const { dibs, clock } = await setUp("sqlite", `${from}T00:00:00Z`);
    await dibs.schedule("s", { cron, tz: "Europe/London", missed: "all" }, { queue: "reports" }).ready;
    await sleepThrough(clock, 3 * DAY);
    expect((await planned(dibs)).map((time) => time.slice(8))).toEqual(times);
  });

  test("a half-hourly schedule fires in both hours when one is repeated", async () => {
    const { dibs, clock } = await setUp("memory", "2026-10-24T23:45:00Z");
    const when = { cron: "*/30 * * * *", tz: "Europe/London", missed: "all" } as const;
    await dibs.schedule("s", when, { queue: "reports" }).ready;
    await sleepThrough(clock, 2.5 * HOUR);
    expect((await planned(dibs)).map((time) => time.slice(11))).toEqual([
      ...["00:00", "00:30", "01:00", "01:30", "02:00"],
    ]);
  });

  test("a schedule uses the policy and the validator of its queue", async () => {
    const { dibs, clock } = await setUp("memory");
    const reports = defineQueue("reports", { schema: z.object({ day: z.number() }), maxAttempts: 2 });
    await dibs.schedule("s", { every: "1h" }, { queue: reports, data: { day: 1 } }).ready;
    await sleepThrough(clock, HOUR);
    const [claim] = await dibs.queue(reports).claim();
    expect(claim).toMatchObject({ data: { day: 1 }, maxAttempts: 2 });
    const bad = dibs.schedule("t", { every: "1h" }, { queue: reports, data: { day: "x" } as never });
    await expect(bad.ready).rejects.toMatchObject({ code: "INVALID" });
    await expect(bad.pause()).rejects.toMatchObject({ code: "INVALID" });
  });

  test("a schedule that cannot be defined is logged if the caller does not await it", async () => {
    const told: string[] = [];
    const note = (message: string): void => void told.push(message);
    const logger = { error: note, warn: note, info: note, debug: note };
    const dibs = await openStore("memory", { logger });
    await dibs.port.close();
    dibs.schedule("s", { every: "1h" }, { queue: "reports" });
    await expect.poll(() => told).toEqual([expect.stringContaining("Schedule s could not be defined")]);
  });

  test("a schedule reaches the store even if the program closes it at once", async () => {
    const dibs = await openStore("sqlite");
    const { ready } = dibs.schedule("s", { every: "1h" }, { queue: "reports" });
    await dibs.close();
    await ready;
  });

  test.each([
    [{ cron: "0 3 * *" }, { queue: "q" }, "five fields"],
    [{ every: "10 minutes" }, { queue: "q" }, "every"],
    [{ every: "1s", tz: "UTC" }, { queue: "q" }, "tz"],
    [{ cron: "* * * * *", tz: "Atlantis" }, { queue: "q" }, "Europe/London"],
    [{ every: "1s" }, { queue: "q", runAt: new Date() }, "runAt"],
    [{ every: "1s" }, { queue: "q", idempotencyKey: "k" }, "idempotencyKey"],
    [{ every: "1s" }, { queue: "a b" }, "queue name"],
    [{ every: "1s" }, { queue: "q", ttl: "x" }, "ttl"],
    [{ every: "1s" }, undefined, "what"],
  ])("%j with %j is refused at once", async (when, what, word) => {
    const dibs = await openStore("memory");
    expect(() => dibs.schedule("s", when as never, what as never)).toThrow(word);
    expect(await dibs.schedules()).toEqual([]);
  });
});
