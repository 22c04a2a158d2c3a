/** The line of waiting tasks, what holds it, its retries and the dead-letter tray. */

import { showCount, showRate } from "../format/number.ts";
import { box, type Brush, drawCell, write } from "./brush.ts";
import type { Cell, Scene } from "./cells.ts";
import { HUES } from "./hue.ts";
import { CELL, LATER_LABEL, type Layout, singleCells, slotAt, STEP } from "./layout.ts";

/** What the head of the line is held by. */
export interface Holding {
  isPaused: boolean;
  /** "rate limit, 2 s more"; null: nothing. */
  gate: string | null;
}

export function drawStrip(
  brush: Brush,
  scene: Scene,
  layout: Layout,
  holding: Holding,
  flying: Set<Cell>,
  drift: number,
): void {
  const { context, colours } = brush;
  const { strip } = layout;
  context.fillStyle = colours.card;
  context.strokeStyle = colours.line;
  context.lineWidth = 1.5;
  box(context, strip.x, strip.y, strip.width, strip.height, 10);
  context.fill();
  context.stroke();
  if (holding.isPaused) hatch(brush, strip.x, strip.y, strip.width, strip.height, "amber");
  if (scene.streaming && !strip.buckets) drawConveyor(brush, scene, layout, drift);
  else drawLine(brush, scene, layout, flying, drift);
  if (strip.buckets) drawBuckets(brush, layout);
  if (scene.gap) drawGap(brush, layout, scene.gap.missed);
  drawHead(brush, layout, holding);
  write(brush, "tail", strip.x + strip.width - 2, strip.y - 9, { colour: "quiet", size: 11, align: "right" });
  drawRetries(brush, scene, layout, flying);
}

function drawLine(brush: Brush, scene: Scene, layout: Layout, flying: Set<Cell>, drift: number): void {
  const singles = Math.min(singleCells(layout), scene.line.length);
  // Near the head of a long line that streams, the cells that are known stand for those that pass.
  if (scene.streaming) return drawConveyor(brush, scene, layout, drift);
  for (let at = 0; at < singles; at++) {
    const cell = scene.line[at]!;
    if (!flying.has(cell) && cell.x !== null) drawCell(brush, cell, cell.x, cell.y!);
  }
}

/** Too many to follow: the line moves steadily to its head, with the colours of tasks that really passed. */
function drawConveyor(brush: Brush, scene: Scene, layout: Layout, drift: number): void {
  const { strip } = layout;
  const count = Math.min(scene.ready, singleCells(layout));
  const columns = Math.ceil(count / strip.rows);
  const shift = drift % STEP;
  const first = Math.floor(drift / STEP);
  const { context } = brush;
  context.save();
  box(context, strip.x + 6, strip.y + 2, Math.max(0, columns) * STEP + 6, strip.height - 4, 6);
  context.clip();
  for (let column = 0; column <= columns; column++) {
    for (let row = 0; row < strip.rows; row++) {
      const { x, y } = slotAt(layout, column * strip.rows + row);
      const known = scene.line[(first + column) % Math.max(1, scene.line.length)];
      const hue = ((first + column) * 5 + row * 7 + (known?.hue ?? 0)) % HUES;
      brush.sprites.draw(context, hue, x - shift, y);
    }
  }
  context.restore();
}

function drawBuckets(brush: Brush, layout: Layout): void {
  const { context, colours } = brush;
  const { strip } = layout;
  const { from, count, size } = strip.buckets!;
  context.fillStyle = colours.accent;
  context.globalAlpha = 0.42;
  const last = Math.min(count, strip.columns * strip.rows - from);
  for (let at = 0; at < last; at++) {
    const { x, y } = slotAt(layout, from + at);
    context.fillRect(x, y, CELL, CELL);
  }
  context.globalAlpha = 1;
  const { x } = slotAt(layout, from);
  const text = `each square is ${showCount(size)} tasks`;
  write(brush, text, x, strip.y - 9, { colour: "quiet", size: 11 });
}

function drawHead(brush: Brush, layout: Layout, { isPaused, gate }: Holding): void {
  const { context, colours } = brush;
  const { strip } = layout;
  const shut = isPaused || gate !== null;
  const text = isPaused ? "paused" : gate === null ? "head" : `held: ${gate}`;
  write(brush, text, strip.x + 2, strip.y - 9, {
    ...{ colour: shut ? "amber" : "quiet", size: 11, weight: shut ? 600 : 400 },
    ...(strip.buckets && { most: strip.buckets.from * STEP }),
  });
  if (!shut) return;
  // A gate across the head: nothing passes.
  context.fillStyle = colours.amber;
  box(context, strip.x - 5, strip.y - 2, 4, strip.height + 4, 2);
  context.fill();
}

function drawGap(brush: Brush, layout: Layout, missed: number): void {
  const { strip } = layout;
  const width = 3 * STEP;
  const x = strip.x + strip.width - width - 12;
  hatch(brush, x, strip.y + 6, width, strip.height - 12, "quiet");
  const text = `gap: ${showCount(missed)} events not seen`;
  write(brush, text, strip.x + strip.width - 2, strip.y + strip.height + 16, {
    colour: "quiet",
    size: 11,
    align: "right",
  });
}

/** Failed tasks under the head, pale until their next attempt is due, after the count of all that are due later. */
function drawRetries(brush: Brush, scene: Scene, layout: Layout, flying: Set<Cell>): void {
  const { strip, retries } = layout;
  const room = Math.floor((strip.x + strip.width - retries.x) / STEP);
  scene.retries.slice(0, room).forEach((cell) => {
    if (!flying.has(cell) && cell.x !== null) drawCell(brush, cell, cell.x, cell.y!, 0.55);
  });
  const later = Math.max(scene.later, scene.retries.length);
  if (later === 0) return;
  write(brush, `due later: ${showCount(later)}`, retries.x - LATER_LABEL, retries.y + 11, {
    colour: "quiet",
    size: 11,
  });
}

export function drawTray(brush: Brush, scene: Scene, layout: Layout, flying: Set<Cell>): void {
  const { context, colours } = brush;
  const { tray } = layout;
  write(brush, "DEAD LETTERS", tray.x + 2, tray.y - 9, { colour: "quiet", weight: 600, size: 11 });
  context.strokeStyle = colours.line;
  context.lineWidth = 1.5;
  box(context, tray.x, tray.y, tray.width, tray.height, 10);
  context.stroke();
  const y = tray.y + (tray.height - CELL) / 2;
  const room = Math.floor((tray.width - 80) / STEP);
  const shown = Math.min(scene.dead, room);
  // Those that fell while the page was open keep their colour; of the others only the number is known.
  const coloured = scene.tray.filter((cell) => !flying.has(cell)).slice(-shown);
  for (let at = 0; at < shown; at++) {
    const x = tray.x + 12 + at * STEP;
    const cell = coloured[coloured.length - 1 - at];
    if (cell) drawCell(brush, { hue: cell.hue, attempt: 1 }, x, y, 0.5);
    context.strokeStyle = colours.red;
    context.globalAlpha = 0.75;
    box(context, x + 0.75, y + 0.75, CELL - 1.5, CELL - 1.5, 2.5);
    context.stroke();
    context.globalAlpha = 1;
  }
  const look = {
    colour: scene.dead > 0 ? "red" : "quiet",
    weight: scene.dead > 0 ? 600 : 400,
    align: "right",
  } as const;
  write(
    brush,
    scene.dead > 0 ? showCount(scene.dead) : "none",
    tray.x + tray.width - 14,
    tray.y + tray.height / 2 + 4.5,
    look,
  );
}

export function drawProducers(brush: Brush, layout: Layout, rate: number): void {
  const { x, y } = layout.producers;
  write(brush, "PRODUCERS", x, y, { colour: "quiet", weight: 600, size: 11, align: "right" });
  write(brush, `${showRate(rate)} tasks/s`, x, y + 18, { align: "right" });
}

export function hatch(
  brush: Brush,
  x: number,
  y: number,
  width: number,
  height: number,
  colour: "amber" | "quiet",
): void {
  const { context, colours } = brush;
  context.save();
  box(context, x, y, width, height, 9);
  context.clip();
  context.globalAlpha = 0.28;
  context.strokeStyle = colours[colour];
  context.lineWidth = 1.5;
  context.beginPath();
  for (let at = x - height; at < x + width; at += 9) {
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
  }
  context.stroke();
  context.restore();
}
