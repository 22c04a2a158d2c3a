/** From the symbolic places of a flight to pixels, and the way between them. */

import type { Cell, Flight, Place, Scene } from "./cells.ts";
import { type Box, CELL, cellAt, handOf, type Layout, type Point, rowOf, STEP } from "./layout.ts";

/** What must be looked up often in one frame. */
export interface Index {
  slots: Map<Cell, number>;
  retries: Map<Cell, number>;
  workers: Map<string, number>;
}

export function indexOf(scene: Scene): Index {
  const numbered = <T>(items: Iterable<T>) => new Map([...items].map((item, at) => [item, at]));
  return {
    slots: numbered(scene.line),
    retries: numbered(scene.retries),
    workers: numbered([...scene.workers.values()].sort(byName).map(({ id }) => id)),
  };
}

/** The order of workers: they keep their place, whether they are busy or idle. */
export function byName(a: { name: string; id: string }, b: { name: string; id: string }): number {
  return a.name.localeCompare(b.name, "en", { numeric: true }) || (a.id < b.id ? -1 : 1);
}

export function retryAt({ retries }: Layout, at: number): Point {
  return { x: retries.x + at * STEP, y: retries.y };
}

export function pointOf(place: Place, layout: Layout, index: Index): Point {
  switch (place.at) {
    case "point":
      return place;
    case "line":
      return cellAt(layout, index.slots.get(place.cell) ?? 0);
    case "retries":
      return retryAt(layout, index.retries.get(place.cell) ?? 0);
    case "producers":
      return { x: layout.producers.x - 40, y: layout.producers.y + 24 };
    case "tray":
      return { x: layout.tray.x + 12, y: layout.tray.y + (layout.tray.height - CELL) / 2 };
    case "worker":
    case "above": {
      const row = workerRow(place.id, layout, index);
      if (!row) return { x: layout.head.x - 40, y: layout.head.y };
      const hand = handOf(row, place.slot);
      return place.at === "worker" ? hand : { x: hand.x, y: hand.y - 22 };
    }
  }
}

export function workerRow(id: string, layout: Layout, index: Index): Box | null {
  const at = index.workers.get(id);
  return at === undefined ? null : rowOf(layout, at);
}

/** Where a flight is now; 0 to 1 is how far it has come. */
export function flightPoint(
  flight: Flight,
  layout: Layout,
  index: Index,
  now: number,
): Point & { progress: number } {
  const progress = Math.min(1, Math.max(0, (now - flight.startedAt) / flight.duration));
  const eased = 1 - (1 - progress) ** 3;
  const from = pointOf(flight.from, layout, index);
  const to = pointOf(flight.to, layout, index);
  if (flight.to.at === "worker" && !layout.isNarrow) return { ...onCurve(from, to, eased), progress };
  return {
    x: from.x + (to.x - from.x) * eased,
    y: from.y + (to.y - from.y) * eased + flight.arc * Math.sin(Math.PI * progress),
    progress,
  };
}

/** The way from the head to a worker bends like the line that is drawn between them. */
export function onCurve(from: Point, to: Point, t: number): Point {
  const middle = (from.x + to.x) / 2;
  const u = 1 - t;
  const [a, b, c, d] = [u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t];
  return {
    x: a * from.x + (b + c) * middle + d * to.x,
    y: (a + b) * from.y + (c + d) * to.y,
  };
}

/** How quickly a cell follows its slot when the line moves up. */
const FOLLOW_MS = 55;

/** Lets the cells of the line ease to their slots. @returns whether one of them is still on its way */
export function settleCells(scene: Scene, layout: Layout, singles: number, elapsed: number): boolean {
  const part = 1 - Math.exp(-elapsed / FOLLOW_MS);
  let moving = false;
  const follow = (cell: Cell, { x, y }: Point) => {
    if (cell.x === null || cell.y === null || Math.abs(cell.x - x) > 400) {
      cell.x = x;
      cell.y = y;
      return;
    }
    cell.x += (x - cell.x) * part;
    cell.y += (y - cell.y) * part;
    if (Math.abs(cell.x - x) + Math.abs(cell.y - y) > 0.5) moving = true;
  };
  for (let at = 0; at < Math.min(singles, scene.line.length); at++)
    follow(scene.line[at]!, cellAt(layout, at));
  scene.retries.forEach((cell, at) => follow(cell, retryAt(layout, at)));
  return moving;
}
