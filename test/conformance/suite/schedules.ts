import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import {
  PLANNED_HEADER,
  SCHEDULE_HEADER,
  type ScheduleDefinition,
  type ScheduleRecord,
} from "../../../src/core/time/schedule.ts";
import type { TaskRecord } from "../../../src/core/task/task.ts";
import type { ManualClock } from "../../../src/testing/manual-clock.ts";
import {
  addOne,
  claimNames,
  DAY,
  depths,
  eventsUntil,
  HOUR,
  listen,
  MINUTE,
  passLong,
  QUEUE,
  refused,
  SECOND,
  type Start,
} from "./kit.ts";

const no = (value: unknown): never => value as never;

type Fields = Partial<{ cron: string; tz: string; every: number }> &
  Partial<Pick<ScheduleDefinition, "missed" | "task" | "until" | "limit" | "jitter">>;

function definition(fields: Fields): ScheduleDefinition {
  return { missed: "once", task: { queue: QUEUE, data: "{}" }, ...fields } as ScheduleDefinition;
}

function define(port: Port, fields: Fields, name = "s"): Promise<ScheduleRecord> {
  return port.schedule(name, definition(fields));
}

/** The tasks that are ready, in the order in which they were added. */
async function added(port: Port, queue = QUEUE): Promise<TaskRecord[]> {
  return (await port.list({ queue, state: "ready", limit: 1_000 })).tasks;
}

/** The planned times of these tasks. */
async function planned(port: Port): Promise<string[]> {
  return (await added(port)).map(({ headers }) => headers[PLANNED_HEADER]!.slice(0, 16));
}

async function one(port: Port, name = "s"): Promise<ScheduleRecord> {
  const [found] = (await port.schedules({ name })).items;
  return found!;
}

function ending(start: Start): void {
  describe("the end of a schedule", () => {
    test("a schedule with a limit ends after that many tasks, and fire() does not count", async () => {
      const { port, clock } = await start();
      expect(await define(port, { every: MINUTE, limit: 3 })).toMatchObject({
        limit: 3,
        fired: 0,
        ended: false,
        next: { length: 3 },
      });
      await port.fireSchedule("s");
      await passMinutes(clock, 2);
      expect(await one(port)).toMatchObject({ fired: 2, ended: false, next: { length: 1 } });
      await passMinutes(clock, 3);
      expect(await one(port)).toMatchObject({ fired: 3, ended: true, next: [] });
      expect(await added(port)).toHaveLength(4);
    });

    test("missed times count for the limit as well", async () => {
      const { port, clock } = await start();
      await define(port, { every: MINUTE, limit: 3, missed: "all" });
      await passLong(clock, HOUR);
      expect(await added(port)).toHaveLength(3);
      expect((await one(port)).ended).toBe(true);
    });

    test("a schedule does not fire after its end, and does not plan beyond it", async () => {
      const { port, clock } = await start();
      const { createdAt } = await define(port, { every: MINUTE });
      const until = createdAt + 2 * MINUTE + SECOND;
      const defined = await define(port, { every: MINUTE, until });
      expect(defined).toMatchObject({ until, next: [createdAt + MINUTE, createdAt + 2 * MINUTE] });
      await passMinutes(clock, 5);
      expect(await added(port)).toHaveLength(2);
      expect(await one(port)).toMatchObject({ ended: true, next: [] });
    });

    test("a schedule that has ended continues when its limit or its end is raised", async () => {
      const { port, clock } = await start();
      await define(port, { every: MINUTE, limit: 1 });
      await passMinutes(clock, 2);
      expect((await one(port)).ended).toBe(true);
      expect(await define(port, { every: MINUTE, limit: 2 })).toMatchObject({ fired: 1, ended: false });
      await passMinutes(clock, 2);
      expect(await added(port)).toHaveLength(2);
    });

    test("with jitter, a task is due at most that long after its planned time", async () => {
      const { port, clock } = await start();
      await define(port, { every: MINUTE, limit: 5, jitter: 30 * SECOND });
      await passMinutes(clock, 5);
      const { tasks: late } = await port.list({ queue: QUEUE, state: "scheduled", limit: 10 });
      for (const { dueAt, headers } of late)
        expect(dueAt! - Date.parse(headers[PLANNED_HEADER]!)).toBeLessThanOrEqual(31 * SECOND);
      await clock.advance(MINUTE);
      expect(await added(port)).toHaveLength(5);
    });

    test("bounds that make no sense are refused", async () => {
      const { port } = await start();
      await refused(() => define(port, { every: MINUTE, limit: 0 }), "INVALID");
      await refused(() => define(port, { every: MINUTE, until: no("tomorrow") }), "INVALID");
      await refused(() => define(port, { every: MINUTE, jitter: no("soon") }), "INVALID");
    });
  });
}

/** Minute by minute, so that no time is missed. */
async function passMinutes(clock: ManualClock, minutes: number): Promise<void> {
  for (let passed = 0; passed < minutes; passed++) await clock.advance(MINUTE);
}

export function schedules(start: Start): void {
  firing(start);
  ending(start);
  calendar(start);
  missing(start);
  changing(start);
  refusing(start);
}

function firing(start: Start): void {
  describe("schedules", () => {
    test("a schedule adds a task at each of its times, counted from its definition", async () => {
      const { port, clock, startedAt } = await start();
      await clock.advance(7 * SECOND);
      const { next } = await define(port, { every: MINUTE });
      const from = startedAt + 7 * SECOND;
      expect(next).toEqual([1, 2, 3, 4, 5].map((n) => from + n * MINUTE));
      await clock.advance(MINUTE - 1);
      expect(await added(port)).toEqual([]);
      await clock.advance(1);
      await clock.advance(2 * MINUTE);
      const tasks = await added(port);
      expect(tasks.map(({ createdAt }) => createdAt - from)).toEqual([1, 2, 3].map((n) => n * MINUTE));
      expect(await one(port)).toMatchObject({ lastAt: from + 3 * MINUTE, error: null });
    });

    test("each task has the schedule's name and its planned time in its headers", async () => {
      const { port, clock, startedAt } = await start();
      const task = { queue: QUEUE, data: '"x"', headers: { kind: "report" }, priority: 3, maxAttempts: 2 };
      await define(port, { every: MINUTE, task }, "nightly/report");
      await clock.advance(MINUTE);
      const headers = {
        kind: "report",
        [SCHEDULE_HEADER]: "nightly/report",
        [PLANNED_HEADER]: new Date(startedAt + MINUTE).toISOString(),
      };
      expect(await added(port)).toMatchObject([{ data: '"x"', headers, priority: 3, maxAttempts: 2 }]);
    });

    test("a schedule that is fired adds its task at once, and its plan stays", async () => {
      const { port, clock, startedAt } = await start();
      await define(port, { every: HOUR, task: { queue: QUEUE, data: '"x"', priority: 3 } });
      await clock.advance(MINUTE);
      const fired = await port.fireSchedule("s");
      const headers = {
        [SCHEDULE_HEADER]: "s",
        [PLANNED_HEADER]: new Date(startedAt + MINUTE).toISOString(),
      };
      expect(await added(port)).toMatchObject([{ id: fired.id, data: '"x"', priority: 3, headers }]);
      expect(fired).toMatchObject({ queue: QUEUE, state: "ready", existing: false });
      const { next, lastAt } = await one(port);
      expect({ next: next[0], lastAt }).toEqual({ next: startedAt + HOUR, lastAt: null });
      await port.pauseSchedule("s", true);
      await port.fireSchedule("s");
      expect(await added(port)).toHaveLength(2);
      await refused(() => port.fireSchedule("other"), "INVALID");
    });

    test("schedules are listed by name, with all fields", async () => {
      const { port, startedAt } = await start();
      await define(port, { cron: "0 3 * * *", tz: "Europe/London", missed: "all" }, "b");
      await define(port, { every: HOUR }, "a");
      const first = Date.parse("2026-01-01T03:00:00Z");
      expect((await port.schedules()).items).toMatchObject([
        { name: "a", cron: null, tz: null, every: HOUR, missed: "once" },
        {
          ...{ name: "b", cron: "0 3 * * *", tz: "Europe/London", every: null, missed: "all" },
          ...{ next: [0, 1, 2, 3, 4].map((n) => first + n * DAY), task: { queue: QUEUE, data: "{}" } },
          ...{ paused: false, lastAt: null, createdAt: startedAt, error: null },
        },
      ]);
      expect((await port.schedules({ name: "nobody" })).items).toEqual([]);
    });

    test("a firing wakes a waiting claim", async () => {
      const { port, clock } = await start();
      await define(port, { every: 10 * SECOND });
      const waiting = port.claim({ queues: [QUEUE], max: 1, worker: "w", wait: MINUTE });
      await clock.advance(10 * SECOND);
      expect((await waiting).tasks).toHaveLength(1);
    });

    test("events report what happens to a schedule", async () => {
      const { port, clock, startedAt: at } = await start();
      const heard = listen(port);
      await define(port, { every: MINUTE });
      await port.pauseSchedule("s", true);
      await port.pauseSchedule("s", false);
      await define(port, { every: 2 * SECOND });
      await clock.advance(2 * SECOND);
      await port.unschedule("s");
      const told = await eventsUntil(heard, "schedule.deleted");
      const of = { queue: QUEUE, schedule: "s" };
      expect(told.filter(({ type }) => type.startsWith("schedule."))).toEqual([
        ...["created", "paused", "resumed", "updated"].map((what) => ({
          ...{ type: `schedule.${what}`, at },
          ...of,
        })),
        { type: "schedule.fired", at: at + 2 * SECOND, ...of },
        { type: "schedule.deleted", at: at + 2 * SECOND, ...of },
      ]);
      expect(told.filter(({ type }) => type === "task.added")).toHaveLength(1);
    });
  });
}

/** Europe/London: at 01:00 on 29 March 2026 clocks go to 02:00; at 02:00 on 25 October they go back to 01:00. */
function calendar(start: Start): void {
  describe("cron schedules and daylight saving time", () => {
    const cases: [string, string, string, number, string[]][] = [
      [
        "a daily schedule keeps its time of day across the change in spring",
        "0 3 * * *",
        "2026-03-28T00:00:00Z",
        2,
        ["2026-03-28T03:00", "2026-03-29T02:00"],
      ],
      [
        "a time that is skipped fires right after the skipped hour",
        "30 1 * * *",
        "2026-03-28T00:00:00Z",
        2,
        ["2026-03-28T01:30", "2026-03-29T01:00"],
      ],
      [
        "a time that occurs twice fires the first time only",
        "30 1 * * *",
        "2026-10-24T00:00:00Z",
        3,
        ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"],
      ],
      [
        "an hourly schedule fires in both hours when one is repeated",
        "30 * * * *",
        "2026-10-24T23:00:00Z",
        4 / 24,
        ["2026-10-24T23:30", "2026-10-25T00:30", "2026-10-25T01:30", "2026-10-25T02:30"],
      ],
    ];
    test.each(cases)("%s", async (_, cron, from, days, times) => {
      const { port, clock, startedAt } = await start();
      await passLong(clock, Date.parse(from) - startedAt);
      await define(port, { cron, tz: "Europe/London", missed: "all" });
      await passLong(clock, days * DAY);
      expect(await planned(port)).toEqual(times);
    });

    test("a cron schedule uses UTC by default, and may have seconds", async () => {
      const { port, clock } = await start();
      expect(await define(port, { cron: "*/20 * * * * *" })).toMatchObject({ tz: "UTC" });
      await clock.advance(MINUTE);
      expect(await depths(port)).toEqual({ ready: 3 });
    });
  });
}

/** No process is running: the machine sleeps. */
async function sleepThrough(clock: ManualClock, ms: number): Promise<void> {
  clock.sleep(ms);
  await clock.advance(2 * SECOND);
}

function missing(start: Start): void {
  describe("missed firings", () => {
    test("missed firings are replaced by one task by default", async () => {
      const { port, clock, startedAt } = await start();
      await define(port, { every: HOUR });
      await sleepThrough(clock, 5.5 * HOUR);
      expect(await planned(port)).toEqual(["2026-01-01T05:00"]);
      expect((await one(port)).next[0]).toBe(startedAt + 6 * HOUR);
    });

    test('missed firings are dropped with "skip"; a slightly late one is not missed', async () => {
      const { port, clock, startedAt } = await start();
      await define(port, { every: HOUR, missed: "skip" });
      await sleepThrough(clock, 5.5 * HOUR);
      expect(await planned(port)).toEqual([]);
      expect(await one(port)).toMatchObject({ lastAt: null });
      await sleepThrough(clock, 30 * MINUTE + 20 * SECOND);
      expect(await planned(port)).toEqual(["2026-01-01T06:00"]);
      expect((await one(port)).next[0]).toBe(startedAt + 7 * HOUR);
    });

    test('each missed firing gets its task with "all", the earliest first', async () => {
      const { port, clock } = await start();
      await define(port, { every: HOUR, missed: "all" });
      await sleepThrough(clock, 5.5 * HOUR);
      expect(await planned(port)).toEqual([1, 2, 3, 4, 5].map((n) => `2026-01-01T0${n}:00`));
    });

    test("of too many missed firings the latest thousand get their tasks", async () => {
      const { port, clock, startedAt } = await start();
      await define(port, { every: MINUTE, missed: "all" });
      await sleepThrough(clock, 1_500 * MINUTE);
      const tasks = await added(port);
      expect(tasks).toHaveLength(1_000);
      const times = tasks.map(({ headers }) => Date.parse(headers[PLANNED_HEADER]!));
      expect(times).toEqual(Array.from({ length: 1_000 }, (_, n) => startedAt + (501 + n) * MINUTE));
    });

    test("a paused schedule misses no firings", async () => {
      const { port, clock, startedAt } = await start();
      await define(port, { every: HOUR, missed: "all" });
      await port.pauseSchedule("s", true);
      await port.pauseSchedule("s", true);
      expect(await one(port)).toMatchObject({ paused: true, next: [] });
      await sleepThrough(clock, 5.5 * HOUR);
      await port.pauseSchedule("s", false);
      await clock.advance(2 * SECOND);
      expect(await planned(port)).toEqual([]);
      expect(await one(port)).toMatchObject({ paused: false });
      expect((await one(port)).next[0]).toBe(startedAt + 6 * HOUR);
    });
  });
}

function changing(start: Start): void {
  describe("changing a schedule", () => {
    test("repeating a definition changes nothing", async () => {
      const { port, clock, startedAt } = await start();
      await define(port, { every: MINUTE });
      await clock.advance(40 * SECOND);
      const { next } = await define(port, { every: MINUTE });
      expect(next[0]).toBe(startedAt + MINUTE);
    });

    test("a schedule plans again only if its timing changes", async () => {
      const { port, clock, startedAt } = await start();
      await define(port, { every: MINUTE });
      await clock.advance(40 * SECOND);
      const other = await define(port, { every: MINUTE, task: { queue: QUEUE, data: '"other"' } });
      expect(other.next[0]).toBe(startedAt + MINUTE);
      const slower = await define(port, { every: 2 * MINUTE, task: { queue: QUEUE, data: '"other"' } });
      expect(slower.next[0]).toBe(startedAt + 40 * SECOND + 2 * MINUTE);
      await clock.advance(2 * MINUTE);
      expect(await claimNames(port)).toEqual(['"other"']);
    });

    test("a schedule stays paused and keeps an operator's change while its declaration stays the same", async () => {
      const { port } = await start();
      await define(port, { every: MINUTE });
      await port.pauseSchedule("s", true);
      await port.schedule("s", definition({ every: HOUR }), { force: true });
      await define(port, { every: MINUTE });
      expect(await one(port)).toMatchObject({ every: HOUR, paused: true });
      await define(port, { every: 5 * MINUTE });
      expect(await one(port)).toMatchObject({ every: 5 * MINUTE, paused: true });
    });

    test("a deleted schedule fires no more, and its tasks stay", async () => {
      const { port, clock } = await start();
      await define(port, { every: MINUTE });
      await clock.advance(MINUTE);
      expect(await port.unschedule("s")).toBe(true);
      expect(await port.unschedule("s")).toBe(false);
      await clock.advance(3 * MINUTE);
      expect(await depths(port)).toEqual({ ready: 1 });
      expect((await port.schedules()).items).toEqual([]);
      await refused(() => port.pauseSchedule("s", true), "INVALID", "no schedule");
    });

    test("concurrent definitions make one schedule", async () => {
      const { port, clock } = await start();
      const every = [MINUTE, 2 * MINUTE, MINUTE, 2 * MINUTE];
      await Promise.all(every.map((ms) => define(port, { every: ms })));
      expect((await port.schedules()).items).toHaveLength(1);
      await define(port, { every: MINUTE });
      await clock.advance(MINUTE);
      expect(await depths(port)).toEqual({ ready: 1 });
    });
  });
}

function refusing(start: Start): void {
  describe("schedules whose queue refuses the task", () => {
    test("a firing for a full queue is late, and the schedule shows why", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { maxDepth: 1 });
      await addOne(port, { data: '"first"' });
      await define(port, { every: MINUTE });
      await clock.advance(MINUTE + 20 * SECOND);
      expect(await one(port)).toMatchObject({ lastAt: null, error: { code: "QUEUE_FULL" } });
      expect(await claimNames(port)).toEqual(['"first"']);
      await clock.advance(6 * SECOND);
      expect(await planned(port)).toEqual(["2026-01-01T00:01"]);
      expect(await one(port)).toMatchObject({ error: null });
    });

    test("a firing whose task is too large is skipped, and the schedule shows why", async () => {
      const { port, clock, startedAt } = await start();
      await define(port, { every: MINUTE, task: { queue: QUEUE, data: '"large"' } });
      await port.declare(QUEUE, { maxPayload: 3 });
      await clock.advance(MINUTE);
      const { next, error } = await one(port);
      expect(error).toMatchObject({ code: "PAYLOAD_TOO_LARGE", at: startedAt + MINUTE });
      expect(next[0]).toBe(startedAt + 2 * MINUTE);
    });
  });

  describe("bad schedules", () => {
    const together = start.together();
    const bad: [string, unknown, string][] = [
      ["no times", {}, "cron or every"],
      ["both kinds of times", { cron: "* * * * *", every: MINUTE }, "cron or every"],
      ["too short an interval", { every: 999 }, "every"],
      ["a pattern with too few fields", { cron: "* * *" }, "cron"],
      ["an invalid pattern", { cron: "61 * * * *" }, "minute"],
      ["a pattern that never fires", { cron: "0 0 30 2 *" }, "never"],
      ["a pattern of more than 256 characters", { cron: `${"0,".repeat(125)}0 * * * *` }, "cron"],
      ["a pattern that is a number", { cron: 5 }, "cron"],
      ["an unknown time zone", { cron: "* * * * *", tz: "Mars/Base" }, "tz"],
      ["a time zone for an interval", { every: MINUTE, tz: "UTC" }, "tz"],
      ["an unknown value of missed", { every: MINUTE, missed: "some" }, "missed"],
      ["an unknown option", { every: MINUTE, repeat: 1 }, "repeat"],
      ["no task", { every: MINUTE, task: null }, "task"],
      ["a task without a queue", { every: MINUTE, task: { data: "" } }, "queue"],
      ["a payload that is not a text", { every: MINUTE, task: { queue: QUEUE, data: 7 } }, "payload"],
      ["a key", { every: MINUTE, task: { queue: QUEUE, data: "", idempotencyKey: "k" } }, "idempotencyKey"],
      [
        "a payload above every limit",
        { every: MINUTE, task: { queue: QUEUE, data: "x".repeat(1 << 20) } },
        "bytes",
      ],
    ];
    test.each(bad)("a schedule is refused for %s", async (_, fields, word) => {
      const { port } = together();
      await refused(() => define(port, no(fields)), "INVALID", word);
      expect((await port.schedules()).items).toEqual([]);
    });

    test.each(["", "a b", "-a", "x".repeat(129), 7, null])(
      "the schedule name %j is refused",
      async (name) => {
        const { port } = together();
        await refused(() => define(port, { every: MINUTE }, no(name)), "INVALID", "nightly");
        await refused(() => port.unschedule(no(name)), "INVALID", "nightly");
        await refused(() => port.pauseSchedule(no(name), true), "INVALID", "nightly");
      },
    );
  });
}

/** For stores that several processes may open at once. */
export function sharedSchedules(start: Start): void {
  describe("schedules of a store with several openers", () => {
    test("exactly one opener fires each time, also one that did not define the schedule", async () => {
      const { port, clock, another } = await start();
      const others = [await another(), await another()];
      await define(port, { every: 10 * SECOND });
      await clock.advance(2 * MINUTE);
      const times = (await added(port)).map(({ headers }) => headers[PLANNED_HEADER]);
      expect(times).toHaveLength(12);
      expect(new Set(times).size).toBe(12);
      await port.close();
      await clock.advance(MINUTE);
      expect(await depths(others[0]!.port)).toEqual({ ready: 18 });
    });

    test("all openers may define a schedule at the same moment, and it is one schedule", async () => {
      const { port, clock, another } = await start();
      const ports = [port, (await another()).port, (await another()).port];
      await Promise.all(ports.map((each) => define(each, { every: MINUTE })));
      await clock.advance(MINUTE);
      expect(await depths(port)).toEqual({ ready: 1 });
      expect((await ports[2]!.schedules()).items).toHaveLength(1);
    });
  });
}
