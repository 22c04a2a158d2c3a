/** What all drawing functions need: the canvas, the theme's colours, cells and text. */

import { readColour } from "../ui/colour.ts";
import { CELL } from "./layout.ts";
import { paintSprites, type Sprites } from "./sprites.ts";

export interface Brush {
  context: CanvasRenderingContext2D;
  colours: Record<
    "card" | "sunken" | "text" | "quiet" | "line" | "strong" | "accent" | "amber" | "red" | "green",
    string
  >;
  sprites: Sprites;
  family: string;
}

export function newBrush(context: CanvasRenderingContext2D, isDark: boolean, ratio: number): Brush {
  return {
    context,
    sprites: paintSprites(isDark, ratio),
    family: getComputedStyle(document.body).fontFamily,
    colours: {
      ...{ card: readColour("card"), sunken: readColour("sunken"), text: readColour("text") },
      ...{ quiet: readColour("quiet"), line: readColour("line"), strong: readColour("line-strong") },
      ...{ accent: readColour("accent"), amber: readColour("amber"), red: readColour("red") },
      green: readColour("green"),
    },
  };
}

export interface TextLook {
  colour?: keyof Brush["colours"];
  weight?: 400 | 600;
  size?: 11 | 12 | 13;
  align?: "left" | "right" | "center";
  /** Longer text ends in an ellipsis. */
  most?: number;
}

export function write(brush: Brush, text: string, x: number, y: number, look: TextLook = {}): void {
  const { context, colours, family } = brush;
  const { colour = "text", weight = 400, size = 13, align = "left", most } = look;
  context.fillStyle = colours[colour];
  context.font = `${weight} ${size}px ${family}`;
  context.textAlign = align;
  context.fillText(most === undefined ? text : shorten(context, text, most), x, y);
}

/** Measured once for each text: names stay the same for thousands of frames. */
const shortened = new Map<string, string>();

function shorten(context: CanvasRenderingContext2D, text: string, most: number): string {
  const key = `${context.font} ${Math.round(most)} ${text}`;
  const known = shortened.get(key);
  if (known !== undefined) return known;
  let short = text;
  if (context.measureText(text).width > most) {
    let length = text.length;
    while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > most) length--;
    short = `${text.slice(0, length)}…`;
  }
  if (shortened.size > 500) shortened.clear();
  shortened.set(key, short);
  return short;
}

export function box(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  radius: number,
): void {
  context.beginPath();
  context.roundRect(x, y, width, height, radius);
}

export interface DrawnCell {
  hue: number;
  attempt: number;
}

/** @param alpha below 1 for what waits or fades */
export function drawCell(brush: Brush, { hue, attempt }: DrawnCell, x: number, y: number, alpha = 1): void {
  const { context, sprites, colours, family } = brush;
  context.globalAlpha = alpha;
  sprites.draw(context, hue, x, y);
  if (attempt > 1) {
    context.fillStyle = colours.card;
    context.font = `600 9px ${family}`;
    context.textAlign = "center";
    context.fillText(attempt > 9 ? "+" : String(attempt), x + CELL / 2, y + 10.4);
  }
  context.globalAlpha = 1;
}
