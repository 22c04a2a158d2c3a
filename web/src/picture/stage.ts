/** The picture's canvas: takes frames of the stream, and draws while something moves. */

import type { LiveFrame } from "../api/contract.ts";
import { serverNow } from "../store/clock.ts";
import { type Brush, newBrush } from "./brush.ts";
import { type Cell, newScene, type Scene } from "./cells.ts";
import { drawFrame } from "./draw.ts";
import type { Holding } from "./draw-strip.ts";
import { applyFrame } from "./feed.ts";
import { type Flow, newFlow, SPEED } from "./flow.ts";
import { shownHands } from "./hands.ts";
import { CELL, handOf, type Layout, layOut, nextOffset, singleCells } from "./layout.ts";
import { land } from "./moves.ts";
import { indexOf, settleCells, workerRow } from "./places.ts";

/** What changes twice a second. */
export interface StageFigures {
  holding: Holding;
  arrival: number;
  usual: number | null;
}

export class Stage {
  readonly scene: Scene = newScene();
  readonly #flow: Flow = newFlow();
  readonly #canvas: HTMLCanvasElement;
  readonly #context: CanvasRenderingContext2D;
  #brush: Brush;
  #layout: Layout;
  #figures: StageFigures = { holding: { isPaused: false, gate: null }, arrival: 0, usual: null };
  #drift = 0;
  #last = 0;
  /** The line as it was drawn last. */
  #line: Cell[] = [];
  #dirty = true;
  #request = 0;
  #isDark: boolean;

  constructor(canvas: HTMLCanvasElement, isDark: boolean) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d")!;
    this.#isDark = isDark;
    this.#layout = layOut(canvas.clientWidth, { ready: 0, workers: 0, rows: 1 });
    this.#brush = newBrush(this.#context, isDark, devicePixelRatio || 1);
    this.#request = requestAnimationFrame(this.#frame);
  }

  take(frame: LiveFrame): void {
    applyFrame(this.scene, this.#flow, frame, performance.now());
    this.#dirty = true;
  }

  show(figures: StageFigures): void {
    this.#figures = figures;
    this.#dirty = true;
  }

  setTheme(isDark: boolean): void {
    this.#isDark = isDark;
    this.#brush = newBrush(this.#context, isDark, devicePixelRatio || 1);
    this.#dirty = true;
  }

  resize(): void {
    this.#dirty = true;
  }

  stop(): void {
    cancelAnimationFrame(this.#request);
  }

  /** The task under a point of the canvas. */
  cellAt(x: number, y: number): Cell | null {
    const isOver = (left: number, top: number) =>
      x >= left - 1 && x <= left + CELL + 1 && y >= top - 1 && y <= top + CELL + 1;
    const index = indexOf(this.scene);
    for (const { id, held, concurrency } of this.scene.workers.values()) {
      const row = workerRow(id, this.#layout, index);
      if (!row) continue;
      const shown = shownHands(row, concurrency);
      const found = [...held.values()].find(
        ({ slot }) => slot < shown && isOver(handOf(row, slot).x, handOf(row, slot).y),
      );
      if (found) return found.cell;
    }
    if (this.scene.streaming) return null;
    const drawn = [...this.scene.line.slice(0, singleCells(this.#layout)), ...this.scene.retries];
    return drawn.find((cell) => cell.x !== null && isOver(cell.x, cell.y!)) ?? null;
  }

  readonly #frame = (now: number): void => {
    this.#request = requestAnimationFrame(this.#frame);
    const elapsed = Math.min(100, now - this.#last);
    this.#last = now;
    const { scene } = this;
    const isBusy = scene.flights.length > 0 || scene.streaming || scene.gap !== null || holdsTasks(scene);
    if (!this.#dirty && !isBusy) return;
    this.#dirty = false;
    land(scene, now);
    this.#fit();
    if (settleCells(scene, this.#layout, singleCells(this.#layout), elapsed)) this.#dirty = true;
    if (scene.streaming) this.#drift += (SPEED * elapsed) / 1_000;
    drawFrame(this.#brush, {
      ...{ scene, layout: this.#layout, index: indexOf(scene), ...this.#figures },
      ...{ now, storeNow: serverNow(), drift: this.#drift },
    });
  };

  /** The canvas has the height that the workers need, and a pixel for each pixel of the screen. */
  #fit(): void {
    const { scene } = this;
    const width = this.#canvas.clientWidth;
    const counts = {
      ready: Math.max(scene.ready, scene.line.length),
      workers: scene.workers.size,
      rows: this.#layout.strip.rows,
      offset: nextOffset(this.#line, scene.line, this.#layout.strip.offset),
    };
    this.#layout = layOut(width, counts);
    this.#line = [...scene.line];
    const ratio = devicePixelRatio || 1;
    const height = this.#layout.height;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.#canvas.width === wide && this.#canvas.height === high) return;
    this.#canvas.width = wide;
    this.#canvas.height = high;
    this.#canvas.style.height = `${height}px`;
    this.#context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#brush = newBrush(this.#context, this.#isDark, ratio);
  }
}

function holdsTasks(scene: Scene): boolean {
  for (const { held, lostAt } of scene.workers.values()) if (held.size > 0 || lostAt !== null) return true;
  return false;
}
