import { expect, test } from "vitest";
import { Counter, Histogram } from "../../src/metrics/series.ts";

test("a counter shows its count for each set of labels", () => {
  const counter = new Counter("settled_total", "Claims settled.", ["queue", "settlement"]);
  counter.inc({ queue: "a", settlement: "ack" });
  counter.inc({ queue: "a", settlement: "ack" });
  counter.inc({ queue: "a", settlement: "nack" });
  counter.inc({ queue: "constructor", settlement: "ack" });
  expect(counter.toText().split("\n")).toEqual([
    "# HELP settled_total Claims settled.",
    "# TYPE settled_total counter",
    'settled_total{queue="a",settlement="ack"} 2',
    'settled_total{queue="a",settlement="nack"} 1',
    'settled_total{queue="constructor",settlement="ack"} 1',
    "",
  ]);
});

test("a histogram counts values up to each bound", () => {
  const histogram = new Histogram("wait_seconds", "From add to claim.", ["queue"], [0.1, 1]);
  for (const seconds of [0, 0.1, 0.5, 7]) histogram.observe({ queue: "a" }, seconds);
  expect(histogram.toText().split("\n")).toEqual([
    "# HELP wait_seconds From add to claim.",
    "# TYPE wait_seconds histogram",
    'wait_seconds_bucket{le="0.1",queue="a"} 2',
    'wait_seconds_bucket{le="1",queue="a"} 3',
    'wait_seconds_bucket{le="+Inf",queue="a"} 4',
    'wait_seconds_sum{queue="a"} 7.6',
    'wait_seconds_count{queue="a"} 4',
    "",
  ]);
});

test("a series without labels has one value from the start", () => {
  const histogram = new Histogram("operations", "In a commit.", [], [1]);
  expect(histogram.toText()).toContain('operations_bucket{le="1"} 0\n');
  expect(histogram.toText()).toContain("operations_count 0\n");
});
