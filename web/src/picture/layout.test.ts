import { describe, expect, test } from "vitest";
import { plotKnee } from "./knee.ts";
import { cellAt, layOut, nextOffset, niceCeil, singleCells, slotAt } from "./layout.ts";

const counts = { ready: 10, workers: 3, rows: 1 };

describe("the strip", () => {
  test("the strip has its head at the left", () => {
    const layout = layOut(1_100, counts);
    expect(slotAt(layout, 0).x).toBeLessThan(slotAt(layout, 1).x);
    expect(layout.strip.x).toBe(layout.head.x);
  });

  test("the strip shows 400 tasks one to one, in more rows", () => {
    const layout = layOut(1_100, { ...counts, ready: 400 });
    expect(layout.strip.buckets).toBeNull();
    expect(singleCells(layout)).toBeGreaterThanOrEqual(400);
  });

  test("the strip shows longer lines as buckets, with the first 64 tasks one to one", () => {
    const layout = layOut(1_100, { ...counts, ready: 100_000 });
    const { buckets, columns, rows } = layout.strip;
    expect(singleCells(layout)).toBeGreaterThanOrEqual(64);
    expect(buckets!.count * buckets!.size).toBeGreaterThanOrEqual(100_000 - singleCells(layout));
    expect(buckets!.from + buckets!.count).toBeLessThanOrEqual(columns * rows);
  });

  test("the strip does not get thinner before the line clearly fits", () => {
    const thick = layOut(1_100, { ...counts, ready: 60 });
    const columns = thick.strip.columns;
    expect(layOut(1_100, { ...counts, ready: columns - 1, rows: 2 }).strip.rows).toBe(2);
    expect(layOut(1_100, { ...counts, ready: Math.floor(columns / 2), rows: 2 }).strip.rows).toBe(1);
  });
});

describe("the empty slots at the head", () => {
  test("empty slots at the head are those of claimed cells", () => {
    expect(nextOffset(["a", "b", "c", "d"], ["c", "d"], 1)).toBe(3);
  });

  test("empty slots at the head are filled by cells that come back", () => {
    expect(nextOffset(["c", "d"], ["b", "c", "d"], 2)).toBe(1);
  });

  test("empty slots at the head let the line move up by a whole column", () => {
    const before = layOut(1_100, { ...counts, ready: 100, rows: 3, offset: 2 });
    const after = layOut(1_100, { ...counts, ready: 99, rows: 3, offset: 3 });
    expect(cellAt(after, 0)).toEqual(slotAt(before, 0));
    expect(cellAt(after, 0).x).toBeLessThan(cellAt(before, 1).x);
    expect(cellAt(after, 0).y).toBe(cellAt(before, 1).y);
  });
});

test("the labels of a thick strip do not overlap the producers", () => {
  const { strip, producers } = layOut(1_100, { ...counts, ready: 100_000 });
  // The rate is 18 px below the title, the words are 9 px above the strip, 11 px high.
  expect(strip.y - 9 - 11).toBeGreaterThanOrEqual(producers.y + 18 + 8);
});

test("a narrow canvas without workers says so between the line and the tray", () => {
  const { strip, workersLabel, tray } = layOut(358, { ...counts, workers: 0 });
  expect(workersLabel.y).toBeGreaterThan(strip.y + strip.height);
  expect(tray.y - 20).toBeGreaterThan(workersLabel.y + 24);
});

test("workers that have no room share the last row", () => {
  const layout = layOut(1_100, { ...counts, workers: 40 });
  expect(layout.workers).toHaveLength(11);
  expect(layout.moreWorkers).not.toBeNull();
});

test("everything is drawn inside a narrow canvas", () => {
  const layout = layOut(358, { ...counts, ready: 5_000 });
  expect(layout.isNarrow).toBe(true);
  for (const { x, width } of [layout.strip, layout.tray, ...layout.workers]) {
    expect(x).toBeGreaterThanOrEqual(0);
    expect(x + width).toBeLessThanOrEqual(358);
  }
});

test("bucket sizes are round numbers", () => {
  expect([1, 3, 7, 12, 180, 2_100].map(niceCeil)).toEqual([1, 3, 8, 20, 200, 3_000]);
});

test("the knee bends where the workers keep up with the arrivals", () => {
  const plot = plotKnee({ ratePerWorker: 2, arrivals: 8, workers: 3, throughput: 6, observed: [] });
  const [, bend] = plot.line!.split("L");
  expect(Number(bend!.split(" ")[1])).toBeCloseTo(plot.arrivalY);
  expect(plot.current.y).toBeGreaterThan(plot.arrivalY);
});
