/** One frame of the picture. Reads the scene, and writes only where its cells were drawn. */

import { type Brush, box, drawCell } from "./brush.ts";
import type { Cell, Flight, Scene } from "./cells.ts";
import { drawProducers, drawStrip, drawTray, type Holding } from "./draw-strip.ts";
import { drawWorkers, type WorkerTimes } from "./draw-workers.ts";
import { CELL, type Layout } from "./layout.ts";
import { flightPoint, type Index } from "./places.ts";

export interface FrameInput extends WorkerTimes {
  scene: Scene;
  layout: Layout;
  index: Index;
  holding: Holding;
  arrival: number;
}

export function drawFrame(brush: Brush, input: FrameInput): void {
  const { scene, layout, index, holding, now, drift } = input;
  const { context } = brush;
  context.clearRect(0, 0, layout.width, layout.height);
  const flying = new Set<Cell>();
  for (const { cell, look } of scene.flights) if (look === "cell") flying.add(cell);
  drawProducers(brush, layout, input.arrival);
  drawWorkers(brush, scene, layout, index, flying, input);
  drawStrip(brush, scene, layout, holding, flying, drift);
  drawTray(brush, scene, layout, flying);
  for (const flight of scene.flights) drawFlight(brush, flight, layout, index, now);
}

function drawFlight(brush: Brush, flight: Flight, layout: Layout, index: Index, now: number): void {
  const { context, colours } = brush;
  const { x, y, progress } = flightPoint(flight, layout, index, now);
  const { cell, look } = flight;
  if (look === "cell") {
    cell.x = x;
    cell.y = y;
    drawCell(brush, cell, x, y);
    return;
  }
  if (look === "faded") return drawCell(brush, cell, x, y, 1 - progress);
  // Passed: up and out, in a green that fades.
  context.globalAlpha = (1 - progress) * 0.85;
  context.fillStyle = colours.green;
  box(context, x - 1.5, y - 1.5, CELL + 3, CELL + 3, 4);
  context.fill();
  context.globalAlpha = 1;
}
