import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { array, assert, nat, option, property } from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { openPort } from "../../src/api/open.ts";
import { SILENT } from "../../src/core/process/logger.ts";
import type { Port } from "../../src/core/port.ts";
import { HISTORY_SERIES } from "../../src/dashboard/contract.ts";
import { History } from "../../src/dashboard/history.ts";
import { pack, unpack } from "../../src/dashboard/history-codec.ts";
import {
  addSample,
  LEVELS,
  noLevels,
  packLevels,
  readLevels,
  unpackLevels,
} from "../../src/dashboard/history-levels.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { WEEK_MINUTES, weekOfOneQueue, writeHistories } from "./history-kit.ts";
import { startDashboard } from "./kit.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

test("packed numbers come back exactly up to 127, within 0.6 % above, and null as null", () => {
  assert(
    property(array(option(nat({ max: 2 ** 31 - 1 }))), (values) => {
      const back = unpack(pack(values));
      expect(back).toHaveLength(values.length);
      for (const [at, value] of values.entries()) {
        if (value === null || value < 128) expect(back[at]).toBe(value);
        else expect(Math.abs(back[at]! / value - 1)).toBeLessThan(0.006);
      }
    }),
  );
});

test("a week of a queue is at most 12 kB, so that a thousand queues stay below 20 MB on every engine", () => {
  const report = weekOfOneQueue();
  const points = LEVELS.reduce((sum, level) => sum + level.points, 0);
  const most = Math.ceil((points * HISTORY_SERIES.length * 2 * 4) / 3) + 1_000;
  expect(report.length).toBeLessThan(most);
  expect(report.length).toBeLessThan(13_000);
  expect(JSON.stringify(packLevels(unpackLevels(JSON.parse(report))))).toBe(report);
});

test("a file with a week of a thousand queues is below 20 MB", { timeout: 120_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "dibs-history-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "week.db");
  const port = await openPort(file, {});
  const names = Array.from({ length: 1_000 }, (_, at) => `queue-${at}`);
  await writeHistories(port, names, weekOfOneQueue());
  await port.close();
  expect(statSync(file).size).toBeLessThan(20 * 1024 * 1024);
});

test("each resolution of the history covers its time, and its flows add up", () => {
  const levels = noLevels();
  const sample = {
    depth: 5,
    oldest: 0,
    dead: 1,
    workers: 2,
    added: 60,
    done: 30,
    failed: 0,
    wait: null,
    service: 9,
  };
  for (let minute = 0; minute < WEEK_MINUTES; minute++) addSample(levels, minute, sample);
  const now = WEEK_MINUTES * MINUTE;
  for (const [span, step] of [
    [HOUR, MINUTE],
    [24 * HOUR, 10 * MINUTE],
    [168 * HOUR, HOUR],
  ] as const) {
    const { from, step: found, series } = readLevels(levels, now - span, now, 1_000, now);
    expect([from, found]).toEqual([now - span, step]);
    expect(new Set(series.added)).toEqual(new Set([1]));
    expect(new Set(series.done)).toEqual(new Set([0.5]));
    expect(new Set(series.depth)).toEqual(new Set([5]));
    expect(new Set(series.wait)).toEqual(new Set([null]));
  }
  const few = readLevels(levels, now - HOUR, now, 6, now);
  expect(few.step).toBe(10 * MINUTE);
  expect(few.series.added).toEqual([1, 1, 1, 1, 1, 1]);
});

test("time without samples is null, and not zero", () => {
  const levels = noLevels();
  const sample = {
    depth: 5,
    oldest: 0,
    dead: 1,
    workers: 2,
    added: 60,
    done: 30,
    failed: 0,
    wait: null,
    service: 9,
  };
  addSample(levels, 100, sample);
  addSample(levels, 103, sample);
  const { series } = readLevels(levels, 99 * MINUTE, 105 * MINUTE, 10, 105 * MINUTE);
  expect(series.depth).toEqual([null, 5, null, null, 5, null]);
});

async function passMinutes(clock: ManualClock, count: number): Promise<void> {
  for (let minute = 0; minute < count; minute++) await clock.advance(MINUTE);
}

async function settled(port: Port, queue: string, isWritten: (report: string) => boolean): Promise<void> {
  for (;;) {
    const [found] = (await port.supervised("history", { name: queue })).items;
    if (found && isWritten(found.report)) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test("the history of a queue is stored, survives a restart, and continues", async () => {
  const folder = mkdtempSync(join(tmpdir(), "dibs-history-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "work.db");
  const clock = new ManualClock();
  const first = await openPort(file, { clock });
  const recorder = new History(first, SILENT);
  await first.add(Array.from({ length: 30 }, () => ({ queue: "emails", data: "1" })));
  await passMinutes(clock, 3);
  await recorder.stop();
  await first.close();
  await passMinutes(clock, 2);

  const second = await openPort(file, { clock });
  onTestFinished(() => second.close());
  const again = new History(second, SILENT);
  const now = () => clock.read().wall;
  const lastMinutes = (count: number) => ({ from: now() - count * MINUTE, to: now(), points: 10 });
  const { series } = await again.read(second, "emails", lastMinutes(5));
  expect(series.depth.filter((value) => value === 30).length).toBeGreaterThanOrEqual(2);
  expect(series.depth.at(-1)).toBeNull();
  expect(Math.max(...series.added.map((value) => value ?? 0))).toBeCloseTo(0.5, 1);
  const recorded = async (): Promise<number> => {
    const { series: now30 } = await again.read(second, "emails", { ...lastMinutes(30), points: 100 });
    return now30.depth.filter((value) => value === 30).length;
  };
  const before = await recorded();
  while ((await recorded()) < before + 2) await passMinutes(clock, 1);
  await again.stop();
  expect(again.sparks.of("emails").filter((value) => value === 30).length).toBeGreaterThanOrEqual(2);
});

test("the last quarter of an hour has a value every ten seconds", async () => {
  const clock = new ManualClock();
  const port = await openPort(":memory:", { clock });
  onTestFinished(() => port.close());
  await port.add(Array.from({ length: 60 }, () => ({ queue: "emails", data: "1" })));
  const history = new History(port, SILENT);
  onTestFinished(() => history.stop());
  await passMinutes(clock, 3);
  const to = clock.read().wall;
  const { step, series } = await history.read(port, "emails", { from: to - 15 * MINUTE, to, points: 180 });
  expect(step).toBe(10_000);
  expect(series.depth).toHaveLength(90);
  expect(series.depth.filter((value) => value === 60).length).toBeGreaterThanOrEqual(16);
  expect(Math.max(...series.added.map((value) => value ?? 0))).toBe(1);
  expect(series.depth.slice(0, 60).every((value) => value === null)).toBe(true);
  // A long chart has the minutes.
  const long = await history.read(port, "emails", { from: to - 3 * HOUR, to, points: 180 });
  expect(long.step).toBe(MINUTE);
});

test("the last quarter of an hour of all queues is the sum of those that the caller may read", async () => {
  const clock = new ManualClock();
  const port = await openPort(":memory:", { clock });
  onTestFinished(() => port.close());
  const tasks = (queue: string, count: number) => Array.from({ length: count }, () => ({ queue, data: "1" }));
  await port.add([...tasks("emails", 60), ...tasks("invoices", 6)]);
  const history = new History(port, SILENT);
  onTestFinished(() => history.stop());
  await passMinutes(clock, 2);
  const viewer = { name: "v", scopes: "", readsAll: true, reads: () => true, administers: () => false };
  const all = history.flow({ ...viewer, isWelcome: () => true });
  expect(all.step).toBe(10_000);
  expect(all.series.depth).toHaveLength(90);
  expect(all.series.depth[0]).toBeNull();
  expect(all.series.depth.at(-2)).toBe(66);
  expect(Math.max(...all.series.added.map((value) => value ?? 0))).toBeCloseTo(1.1);
  const reads = (queue: string) => queue === "invoices";
  const some = history.flow({ ...viewer, readsAll: false, reads, isWelcome: () => true });
  expect(some.series.depth.at(-2)).toBe(6);
  const none = history.flow({ ...viewer, readsAll: false, reads: () => false, isWelcome: () => true });
  expect(none.series.depth.every((value) => value === null)).toBe(true);
});

test("of two processes, one records a queue", async () => {
  const clock = new ManualClock();
  const port = await openPort(":memory:", { clock });
  onTestFinished(() => port.close());
  await port.add([{ queue: "emails", data: "1" }]);
  const histories = [new History(port, SILENT), new History(port, SILENT)];
  await passMinutes(clock, 2);
  await settled(port, "emails", () => true);
  const [holder] = (await port.supervised("history", { name: "emails" })).items;
  await passMinutes(clock, 3);
  expect((await port.supervised("history", { name: "emails" })).items[0]!.holder).toBe(holder!.holder);
  await Promise.all(histories.map((history) => history.stop()));
});

test("deleting a queue removes its history", async () => {
  const { port } = await startDashboard();
  await port.add([{ queue: "emails", data: "1" }]);
  await port.supervise({
    ...{ kind: "history", name: "emails", holder: "h", host: "h", pid: 1, queues: ["emails"], lease: 1_000 },
    report: JSON.stringify(packLevels(noLevels())),
  });
  await port.drop("emails");
  expect((await port.supervised("history", { name: "emails" })).items).toEqual([]);
});

test("history over HTTP takes a range, and refuses an invalid one", async () => {
  const { call, port } = await startDashboard();
  await port.add([{ queue: "emails", data: "1" }]);
  const { body } = await call("GET", "v1/queues/emails/history?points=12");
  expect(body.step).toBe(5 * MINUTE);
  expect(Object.keys(body.series)).toEqual([...HISTORY_SERIES]);
  expect((await call("GET", "v1/queues/emails/history?from=10&to=5")).body.code).toBe("INVALID");
  const flow = await call("GET", "v1/history");
  expect(Object.keys(flow.body.series)).toEqual(["depth", "added", "done", "failed"]);
});
