/** The workers that compete for the head of the line, and the ways to them. */

import { showSeconds } from "../format/duration.ts";
import { showRate } from "../format/number.ts";
import { box, type Brush, drawCell, write } from "./brush.ts";
import type { Cell, Held, Scene, Worker } from "./cells.ts";
import { spacingOf } from "./flow.ts";
import { HUES } from "./hue.ts";
import { HANDS_IN_LINE, isTall, shownHands } from "./hands.ts";
import { type Box, CELL, handOf, type Layout, type Point, STEP } from "./layout.ts";
import { type Index, onCurve, workerRow } from "./places.ts";

export interface WorkerTimes {
  /** On the store's clock. */
  storeNow: number;
  /** How long an attempt usually takes, in milliseconds; null: not known. */
  usual: number | null;
  /** On the page's clock. */
  now: number;
  /** How far flows have moved, in pixels. */
  drift: number;
}

export function drawWorkers(
  brush: Brush,
  scene: Scene,
  layout: Layout,
  index: Index,
  flying: Set<Cell>,
  times: WorkerTimes,
): void {
  const { x, y } = layout.workersLabel;
  write(brush, "WORKERS", x, y, { colour: "quiet", weight: 600, size: 11 });
  if (scene.workers.size === 0) {
    write(brush, "None is connected.", x, y + 24, { colour: "quiet" });
    return;
  }
  const hidden: Worker[] = [];
  for (const worker of scene.workers.values()) {
    const row = workerRow(worker.id, layout, index)!;
    if (row === layout.moreWorkers) hidden.push(worker);
    else drawWorker(brush, worker, row, layout, scene.streaming, flying, times);
  }
  if (hidden.length > 0) drawRest(brush, hidden, layout, scene.streaming, times);
}

/** Lost workers fade over this time. */
const FADE_MS = 800;

function drawWorker(
  brush: Brush,
  worker: Worker,
  row: Box,
  layout: Layout,
  streaming: boolean,
  flying: Set<Cell>,
  times: WorkerTimes,
): void {
  const { context } = brush;
  const isLost = worker.lostAt !== null;
  const alpha = isLost ? Math.max(0.4, 1 - (times.now - worker.lostAt!) / FADE_MS) : 1;
  drawWay(brush, row, layout, streaming ? worker.rate : 0, hueSeed(worker), times.drift);
  drawRow(brush, row, alpha);
  context.globalAlpha = alpha;
  const held = [...worker.held.values()];
  const hands = shownHands(row, worker.concurrency);
  const right = row.x + row.width - 16 - Math.min(hands, HANDS_IN_LINE) * STEP;
  const nameY = isTall(row) ? row.y + 21 : row.y + (row.height > 40 ? 20 : row.height / 2 + 4.5);
  write(brush, worker.name, row.x + 12, nameY, {
    weight: 600,
    most: right - row.x - 84,
    colour: isLost ? "quiet" : "text",
  });
  write(brush, isLost ? "lost" : `${showRate(worker.rate)} /s`, right, nameY, {
    colour: isLost ? "amber" : "quiet",
    align: "right",
  });
  if (row.height > 40) drawAttempt(brush, worker, held, row, right, times);
  context.globalAlpha = alpha;
  drawHands(brush, worker, held, row, hands, flying);
  context.globalAlpha = 1;
}

function drawRow({ context, colours }: Brush, row: Box, alpha: number): void {
  context.globalAlpha = alpha;
  context.fillStyle = colours.sunken;
  box(context, row.x, row.y, row.width, row.height, 8);
  context.fill();
  context.globalAlpha = 1;
}

/** What it runs, and a bar that compares the time so far with the usual time: full at twice the usual. */
function drawAttempt(
  brush: Brush,
  worker: Worker,
  held: Held[],
  row: Box,
  right: number,
  times: WorkerTimes,
): void {
  const { context, colours } = brush;
  const oldest = held.reduce<Held | null>((a, b) => (a === null || b.since < a.since ? b : a), null);
  const elapsed = oldest ? Math.max(0, times.storeNow - oldest.since) : 0;
  if (isTall(row))
    write(brush, running(worker, oldest, elapsed), row.x + 12, row.y + 38, {
      colour: "quiet",
      size: 11,
      most: right - row.x - 12,
    });
  const width = right - row.x - 12;
  const y = row.y + row.height - 13;
  context.fillStyle = colours.line;
  box(context, row.x + 12, y, width, 4, 2);
  context.fill();
  if (!oldest || worker.lostAt !== null) return;
  const share = times.usual === null ? 0 : elapsed / (2 * Math.max(1, times.usual));
  // Far beyond the usual time, somebody should look. Times vary, so three times as long is nothing special.
  context.fillStyle = share > 5 && elapsed > 5_000 ? colours.amber : colours.accent;
  box(context, row.x + 12, y, Math.max(4, width * Math.min(1, share)), 4, 2);
  context.fill();
}

function running(
  { claims, held, concurrency, lostAt }: Worker,
  oldest: Held | null,
  elapsed: number,
): string {
  if (lostAt !== null) return "its tasks go back to the line";
  if (!oldest) return "waiting for a task";
  const count = Math.max(claims, held.size);
  // What ends within a second has no time that could be read.
  const time = elapsed < 1_000 ? "" : ` for ${showSeconds(elapsed)}`;
  // A worker may hold more than it runs: the others are fetched ahead.
  const ahead = count > concurrency ? `, ${count - concurrency} next` : "";
  return concurrency > 1 || count > 1
    ? `${Math.min(count, concurrency)} of ${concurrency} tasks${time}${ahead}`
    : `task …${oldest.cell.id.slice(24, 30)}${time}`;
}

function drawHands(
  brush: Brush,
  worker: Worker,
  held: Held[],
  row: Box,
  hands: number,
  flying: Set<Cell>,
): void {
  const { context, colours } = brush;
  const alpha = context.globalAlpha;
  for (let slot = 0; slot < hands; slot++) {
    const { x, y } = handOf(row, slot);
    const one = held.find((each) => each.slot === slot);
    if (one && !flying.has(one.cell)) {
      drawCell(brush, one.cell, x, y, alpha);
      if (one.doubled) ring(brush, x, y);
    } else {
      context.globalAlpha = alpha;
      context.strokeStyle = colours.strong;
      context.lineWidth = 1.25;
      box(context, x + 0.75, y + 0.75, CELL - 1.5, CELL - 1.5, 2.5);
      context.stroke();
    }
  }
  const more = Math.max(worker.claims, held.length) - hands;
  if (more > 0 && isTall(row))
    write(brush, `+${more}`, row.x + row.width - 12, row.y + (hands > HANDS_IN_LINE ? 57 : 40), {
      colour: "quiet",
      size: 11,
      align: "right",
    });
}

/** Two workers hold one task: it must be impossible, so it must be seen. */
function ring({ context, colours }: Brush, x: number, y: number): void {
  context.strokeStyle = colours.red;
  context.lineWidth = 2.5;
  box(context, x - 3, y - 3, CELL + 6, CELL + 6, 5);
  context.stroke();
}

function drawRest(
  brush: Brush,
  workers: Worker[],
  layout: Layout,
  streaming: boolean,
  times: WorkerTimes,
): void {
  const row = layout.moreWorkers!;
  const rate = workers.reduce((sum, worker) => sum + worker.rate, 0);
  const busy = workers.filter(({ state }) => state === "busy").length;
  drawWay(brush, row, layout, streaming ? rate : 0, 3, times.drift);
  drawRow(brush, row, 1);
  const y = row.y + row.height / 2 + 4.5;
  write(brush, `${workers.length} more, ${busy} busy`, row.x + 12, y, { colour: "quiet" });
  write(brush, `${showRate(rate)} /s`, row.x + row.width - 12, y, { colour: "quiet", align: "right" });
}

/** The line from the head to a worker and, when tasks stream, the flow on it: its density is the worker's rate. */
function drawWay(brush: Brush, row: Box, layout: Layout, rate: number, seed: number, drift: number): void {
  const { context, colours } = brush;
  const [from, to] = wayOf(row, layout);
  const middle = (from.x + to.x) / 2;
  context.strokeStyle = colours.line;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(from.x, from.y);
  if (layout.isNarrow) {
    context.lineTo(from.x, to.y);
    context.lineTo(to.x, to.y);
  } else context.bezierCurveTo(middle, from.y, middle, to.y, to.x, to.y);
  context.stroke();
  if (rate <= 0) return;
  const length = Math.hypot(to.x - from.x, to.y - from.y) * 1.1;
  const spacing = spacingOf(rate);
  const first = Math.floor(drift / spacing);
  for (let at = drift % spacing, count = 0; at < length; at += spacing, count++) {
    const { x, y } = layout.isNarrow ? straight(from, to, at / length) : onCurve(from, to, at / length);
    const hue = ((((first - count) * 5 + seed) % HUES) + HUES) % HUES;
    brush.sprites.draw(context, hue, x - 4, y - 4, 8);
  }
}

function straight(from: Point, to: Point, part: number): Point {
  const down = Math.abs(to.y - from.y);
  const across = Math.abs(to.x - from.x);
  const at = part * (down + across);
  return at < down ? { x: from.x, y: from.y + at } : { x: from.x + (at - down), y: to.y };
}

function wayOf(row: Box, layout: Layout): [Point, Point] {
  const { head, strip } = layout;
  if (layout.isNarrow)
    return [
      { x: 24, y: strip.y + strip.height },
      { x: row.x - 4, y: row.y + row.height / 2 },
    ];
  return [
    { x: head.x - 7, y: head.y },
    { x: row.x + row.width + 5, y: row.y + Math.min(row.height / 2, 19) },
  ];
}

function hueSeed({ id }: Worker): number {
  return (id.charCodeAt(id.length - 1) || 0) % HUES;
}
