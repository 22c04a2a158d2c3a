/** Cells as small pictures, painted once per theme: copying one is several times as fast as painting it. */

import { colourOf, HUES } from "./hue.ts";
import { CELL } from "./layout.ts";

export interface Sprites {
  draw(context: CanvasRenderingContext2D, hue: number, x: number, y: number, size?: number): void;
}

const MARGIN = 1;

export function paintSprites(isDark: boolean, ratio: number): Sprites {
  const side = CELL + 2 * MARGIN;
  const canvas = document.createElement("canvas");
  canvas.width = side * HUES * ratio;
  canvas.height = side * ratio;
  const context = canvas.getContext("2d")!;
  context.scale(ratio, ratio);
  for (let hue = 0; hue < HUES; hue++) {
    context.fillStyle = colourOf(hue, isDark);
    context.beginPath();
    context.roundRect(hue * side + MARGIN, MARGIN, CELL, CELL, 3);
    context.fill();
    // An edge, by which cells can be told apart without their colour. Its pattern differs from hue to hue.
    context.strokeStyle = isDark ? "#ffffff38" : "#00000030";
    context.lineWidth = 1;
    context.beginPath();
    context.roundRect(hue * side + MARGIN + 0.5, MARGIN + 0.5, CELL - 1, CELL - 1, 2.5);
    context.stroke();
  }
  return {
    draw(target, hue, x, y, size = CELL) {
      const margin = (MARGIN * size) / CELL;
      target.drawImage(
        canvas,
        hue * side * ratio,
        0,
        side * ratio,
        side * ratio,
        x - margin,
        y - margin,
        size + 2 * margin,
        size + 2 * margin,
      );
    },
  };
}
