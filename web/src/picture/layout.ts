/** Where everything is, from the size of the canvas and the counts. Pure; in CSS pixels. */

import { HEAD_CELLS, ONE_TO_ONE } from "./cells.ts";
import { HANDS_IN_LINE, shownHands } from "./hands.ts";

export interface Point {
  x: number;
  y: number;
}

export interface Box extends Point {
  width: number;
  height: number;
}

export interface Strip extends Box {
  columns: number;
  /** A longer line makes the strip thicker: cells fill it column by column from the head. */
  rows: number;
  /**
   * Slots at the head that are empty: their cells were claimed. The line moves up by a whole column when all of it is,
   * so that cells keep their row. Moving up by one slot would let every cell jump between the rows.
   */
  offset: number;
  /** Where a line is too long for one cell per task: from this slot on, a square stands for several tasks. */
  buckets: { from: number; count: number; size: number } | null;
}

export interface Layout {
  width: number;
  height: number;
  isNarrow: boolean;
  head: Point;
  strip: Strip;
  /** The title of the workers, and below it what stands there without any. */
  workersLabel: Point;
  /** One for each worker that has room. */
  workers: Box[];
  /** Stands for the workers that have none. */
  moreWorkers: Box | null;
  tray: Box;
  producers: Point;
  retries: Point;
}

export const CELL = 14;
export const STEP = 17;
const PADDING = 12;
/** The narrowest canvas with workers beside the strip. */
const SIDE_BY_SIDE = 640;
/** What is due later is counted before its cells, so that the words stay where they are. */
export const LATER_LABEL = 88;
/** Room for the words that stand where no worker is. */
const NO_WORKERS = 20;
/** A thick strip grows downwards from here, so that it stays clear of the producers. */
const STRIP_TOP = 84;
const MOST_ROWS = 12;
const MOST_WORKERS = 12;

export interface Counts {
  ready: number;
  workers: number;
  /** Of the layout before this one. */
  rows: number;
  offset?: number;
}

export function layOut(width: number, counts: Counts): Layout {
  return width < SIDE_BY_SIDE ? stacked(width, counts) : sideBySide(width, counts);
}

function sideBySide(width: number, counts: Counts): Layout {
  const column = Math.min(240, Math.round(width * 0.24));
  const head = { x: 24 + column + 112, y: 178 };
  const strip = stripAt(head, width - 24 - head.x, counts, "centre");
  const rowHeight = counts.workers <= 5 ? 64 : counts.workers <= 7 ? 48 : 34;
  const shown = Math.min(counts.workers, MOST_WORKERS);
  const pitch = rowHeight + (rowHeight > 40 ? 8 : 5);
  const rows = Array.from({ length: shown }, (_, at) => ({
    ...{ x: 24, y: 44 + at * pitch, width: column, height: rowHeight },
  }));
  const [workers, moreWorkers] = withRest(rows, counts.workers);
  // Below the retries, which are below a strip that may be thick.
  const trayY = Math.max(306, strip.y + strip.height + 58);
  return {
    ...{ width, height: Math.max(trayY + 62, 44 + shown * pitch + 16), isNarrow: false },
    ...{ head, strip, workersLabel: { x: 24, y: 32 }, workers, moreWorkers },
    producers: { x: width - 24, y: 32 },
    tray: { x: head.x, y: trayY, width: Math.min(260, width - 24 - head.x), height: 38 },
    retries: { x: head.x + 2 + LATER_LABEL, y: strip.y + strip.height + 12 },
  };
}

/** Narrow screens: the strip on top, the workers below it. */
function stacked(width: number, counts: Counts): Layout {
  const head = { x: 16, y: 96 };
  const strip = stripAt(head, width - 32, counts, "top");
  // Beside the way to the workers, not on it.
  const retries = { x: head.x + 24 + LATER_LABEL, y: strip.y + strip.height + 10 };
  const top = retries.y + CELL + 36;
  const shown = Math.min(counts.workers, MOST_WORKERS);
  const rows = Array.from({ length: shown }, (_, at) => ({
    ...{ x: 40, y: top + at * 54, width: width - 56, height: 46 },
  }));
  const [workers, moreWorkers] = withRest(rows, counts.workers);
  const tray = { x: 16, y: top + Math.max(NO_WORKERS, shown * 54) + 30, width: width - 32, height: 38 };
  return {
    ...{ width, height: tray.y + tray.height + 20, isNarrow: true },
    ...{ head, strip, workersLabel: { x: 40, y: top - 12 }, workers, moreWorkers, tray, retries },
    producers: { x: width - 16, y: 28 },
  };
}

/** The last row stands for all that have no row of their own. */
function withRest(rows: Box[], workers: number): [Box[], Box | null] {
  return workers > rows.length && rows.length > 0 ? [rows.slice(0, -1), rows.at(-1)!] : [rows, null];
}

function stripAt(
  head: Point,
  width: number,
  { ready, rows: before, offset = 0 }: Counts,
  anchor: "centre" | "top",
): Strip {
  const columns = Math.max(4, Math.floor((width - 2 * PADDING + STEP - CELL) / STEP));
  const most = Math.min(MOST_ROWS, Math.max(4, Math.ceil(ONE_TO_ONE / columns)));
  const rows = rowsFor(ready + offset, columns, most, before);
  const height = rows * STEP - (STEP - CELL) + 2 * PADDING;
  const y = anchor === "centre" ? Math.max(STRIP_TOP, head.y - height / 2) : head.y - (CELL / 2 + PADDING);
  const buckets = bucketsFor(ready, columns, rows);
  return { x: head.x, y, width, height, columns, rows, offset: offset % rows, buckets };
}

/** Thicker at once when the line does not fit; thinner only when it fits easily, so that it does not flicker. */
function rowsFor(ready: number, columns: number, most: number, before: number): number {
  const needed = Math.min(most, Math.max(1, Math.ceil(ready / columns)));
  if (needed >= before) return needed;
  return ready < columns * (before - 1) * 0.8 ? needed : Math.min(before, most);
}

function bucketsFor(ready: number, columns: number, rows: number): Strip["buckets"] {
  const room = Math.min(ONE_TO_ONE, columns * rows);
  if (ready <= room) return null;
  // Whole columns near the head stay one to one; an empty column separates them from the buckets.
  const headColumns = Math.min(Math.ceil(HEAD_CELLS / rows), Math.floor(columns / 2));
  const from = (headColumns + 1) * rows;
  const slots = columns * rows - from;
  const rest = ready - headColumns * rows;
  const size = niceCeil(rest / slots);
  return { from, count: Math.ceil(rest / size), size };
}

/** A round number: a size that stays the same while the depth changes a little. */
export function niceCeil(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((factor) => factor * power).find((size) => size >= value)!;
}

/** How many cells of the line are drawn one to one. */
export function singleCells({ strip }: Layout): number {
  const slots = strip.buckets ? strip.buckets.from - strip.rows : strip.columns * strip.rows;
  return slots - strip.offset;
}

/** The top left corner of the slot of a cell of the line. */
export function cellAt(layout: Layout, index: number): Point {
  return slotAt(layout, index + layout.strip.offset);
}

/** How many slots at the head are empty, after the line has changed. */
export function nextOffset<T>(before: T[], after: T[], offset: number): number {
  const [first] = after;
  if (first === undefined) return 0;
  const gone = before.indexOf(first);
  if (gone >= 0) return offset + gone;
  const added = before[0] === undefined ? -1 : after.indexOf(before[0]);
  return added > 0 ? Math.max(0, offset - added) : 0;
}

/** The top left corner of a slot of the strip, counted from the head. */
export function slotAt({ strip }: Layout, index: number): Point {
  const column = Math.floor(index / strip.rows);
  return {
    x: strip.x + PADDING + column * STEP,
    y: strip.y + PADDING + (index % strip.rows) * STEP,
  };
}

/** Where a slot of a worker is. Those that have no room are behind the last one. */
export function handOf(row: Box, slot: number): Point {
  const at = Math.min(slot, shownHands(row, Infinity) - 1);
  return {
    x: row.x + row.width - 12 - CELL - (at % HANDS_IN_LINE) * STEP,
    y: row.y + (row.height > 40 ? 12 : (row.height - CELL) / 2) + Math.floor(at / HANDS_IN_LINE) * STEP,
  };
}

export function rowOf({ workers, moreWorkers }: Layout, index: number): Box | null {
  return workers[index] ?? moreWorkers;
}
