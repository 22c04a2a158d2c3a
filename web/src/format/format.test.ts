import { expect, test } from "vitest";
import { readDuration, showDistance, showDuration, writeDuration } from "./duration.ts";
import { countOf, showBytes, showCount, showRate, showShare } from "./number.ts";
import { quote } from "./shell.ts";

test("counts are short", () => {
  expect([0, 999, 9_999, 12_400, 1_000_000, null].map(showCount)).toEqual([
    "0",
    "999",
    "9,999",
    "12.4k",
    "1.0M",
    "–",
  ]);
});

test("rates keep one digit where it says something", () => {
  expect([0, 0.01, 0.44, 9.96, 120.4, 5_000].map(showRate)).toEqual([
    "0",
    "<0.1",
    "0.4",
    "10.0",
    "120",
    "5,000",
  ]);
});

test("shares are in percent", () => {
  expect([0, 0.0001, 0.004, 0.12].map(showShare)).toEqual(["0 %", "<0.1 %", "0.4 %", "12 %"]);
});

test("durations have at most two units", () => {
  const shown = [0, 4, 250, 1_600, 45_000, 200_000, 3_600_000, 7_500_000, 275_000_000].map(showDuration);
  expect(shown).toEqual(["0 s", "4 ms", "250 ms", "1.6 s", "45 s", "3m 20s", "1h", "2h 5m", "3d 4h"]);
});

test("a duration of a policy is read as it is written", () => {
  for (const ms of [1, 250, 1_000, 90_000, 3_600_000, 86_400_000])
    expect(readDuration(writeDuration(ms))).toBe(ms);
  expect(readDuration("1.5h")).toBe(5_400_000);
  expect(readDuration("soon")).toBeNull();
});

test("distances say whether they are past", () => {
  expect([showDistance(0, 4_000), showDistance(4_000, 0), showDistance(0, 100)]).toEqual([
    "4 s ago",
    "in 4 s",
    "now",
  ]);
});

test("nouns follow their number", () => {
  expect([countOf(1, "task"), countOf(2_140, "task")]).toEqual(["1 task", "2,140 tasks"]);
});

test("bytes are in KiB and MiB", () => {
  expect([showBytes(12), showBytes(2_048), showBytes(5_242_880)]).toEqual(["12 B", "2.0 KiB", "5.0 MiB"]);
});

test("a queue's name is one word of a shell", () => {
  expect([quote("emails"), quote("it's here")]).toEqual(["emails", `'it'\\''s here'`]);
});
