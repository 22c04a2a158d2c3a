// Events as both SQL engines store and read them.

import { describe, expect, test } from "vitest";
import { bodyOf, EventReading, type EventRow } from "../../src/engine/event-rows.ts";

const textOf = (n: number): string =>
  JSON.stringify({ type: "task.added", at: n, queue: "q\n", taskId: `${n}` });

/** A row with the events `first` to `last`. */
function row(first: number, last: number): EventRow {
  return { n: last, body: bodyOf(Array.from({ length: last - first + 1 }, (_, i) => textOf(first + i))) };
}

function read(rows: EventRow[], { after = 0, limit = 100, last = rows.at(-1)!.n } = {}) {
  const reading = new EventReading(after, limit);
  for (const each of rows) {
    if (each.n <= reading.cursor) continue;
    reading.add(each);
    if (reading.isFull) break;
  }
  const { events, ...rest } = reading.end(last);
  const seen = events.map((text) => {
    const event = JSON.parse(text) as { type: string; at: number; missed: number };
    return event.type === "gap" ? `gap of ${event.missed} at ${event.at}` : event.at;
  });
  return { seen, ...rest };
}

describe("rows of events", () => {
  test("rows of events are JSON lists", () => {
    expect(JSON.parse(row(1, 2).body)).toHaveLength(2);
    expect(JSON.parse(row(1, 0).body)).toEqual([]);
  });

  test("rows of events are read in order, beginning and ending within a row", () => {
    expect(read([row(1, 3), row(4, 6)], { after: 1, limit: 3 })).toEqual({
      seen: [2, 3, 4],
      cursor: 4,
      missed: 0,
    });
    expect(read([row(4, 6)], { after: 4 })).toEqual({ seen: [5, 6], cursor: 6, missed: 0 });
  });

  test("rows of events have a gap between them where numbers are missing", () => {
    expect(read([row(3, 4), row(10, 10), row(11, 11), row(20, 21)])).toEqual({
      ...{ seen: [3, 4, "gap of 5 at 10", 10, 11, "gap of 8 at 20", 20, 21], cursor: 21, missed: 2 },
    });
  });

  test("rows without events are only counted", () => {
    expect(read([row(8, 7), row(8, 8)])).toEqual({ seen: [8], cursor: 8, missed: 7 });
    expect(read([row(1, 1), row(8, 7), row(8, 8)])).toEqual({
      seen: [1, "gap of 6 at 8", 8],
      cursor: 8,
      missed: 0,
    });
    expect(read([row(8, 7)])).toEqual({ seen: [], cursor: 7, missed: 7 });
  });

  test("numbers that are missing after the last event wait for the next page of events", () => {
    expect(read([row(1, 2)], { last: 9 })).toEqual({ seen: [1, 2], cursor: 2, missed: 0 });
    expect(read([row(1, 2)], { after: 2, last: 9 })).toEqual({ seen: [], cursor: 9, missed: 7 });
  });
});
