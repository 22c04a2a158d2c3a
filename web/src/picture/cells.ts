/** What the picture consists of. The reducers in moves.ts and snapshot.ts change it, draw-*.ts only read it. */

import { hueOf } from "./hue.ts";

export interface Cell {
  id: string;
  hue: number;
  attempt: number;
  /** Where it was drawn last; null: not yet. In the line, cells ease from here to their slot. */
  x: number | null;
  y: number | null;
}

/** A cell in a worker's hands. */
export interface Held {
  cell: Cell;
  /** When this attempt began, on the store's clock. */
  since: number;
  /** Its place at the worker, from 0: hands.ts. */
  slot: number;
  /** Two workers hold this task at once: this must never happen, and would be seen. */
  doubled: boolean;
}

export interface Worker {
  id: string;
  name: string;
  state: "busy" | "idle" | "lost";
  /** Tasks per second that it ends. */
  rate: number;
  concurrency: number;
  held: Map<string, Held>;
  /** How many tasks it holds, by the store's count; `held` may know fewer. */
  claims: number;
  /** When it was seen to be lost, on the page's clock; its row fades from then on. */
  lostAt: number | null;
}

/** Symbolic, so that a flight follows what it flies to when the layout changes. */
export type Place =
  | { at: "line"; cell: Cell }
  | { at: "retries"; cell: Cell }
  | { at: "worker"; id: string; slot: number }
  | { at: "tray" }
  | { at: "producers" }
  | { at: "above"; id: string; slot: number }
  | { at: "point"; x: number; y: number };

export interface Flight {
  cell: Cell;
  from: Place;
  to: Place;
  /** On the page's clock. */
  startedAt: number;
  duration: number;
  /** How far the path bends, in pixels; positive: downwards. */
  arc: number;
  look: "cell" | "passed" | "faded";
}

/** Events that the page did not get, as a hole in the line. */
export interface Gap {
  missed: number;
  at: number;
}

export interface Scene {
  /** The line, head first: the cells that the page knows of. */
  line: Cell[];
  /** Failed tasks that wait for their next attempt. */
  retries: Cell[];
  workers: Map<string, Worker>;
  flights: Flight[];
  /** The last cells that became dead letters. */
  tray: Cell[];
  gap: Gap | null;
  /** Counts of the store, which may be larger than what is drawn. */
  ready: number;
  later: number;
  dead: number;
  /** Too many moves to draw each of them: flow.ts. */
  streaming: boolean;
}

export function newScene(): Scene {
  return {
    ...{ line: [], retries: [], workers: new Map(), flights: [], tray: [], gap: null },
    ...{ ready: 0, later: 0, dead: 0, streaming: false },
  };
}

export function newCell(id: string, attempt: number): Cell {
  return { id, hue: hueOf(id), attempt, x: null, y: null };
}

/** Cells beyond this number are drawn as buckets. */
export const ONE_TO_ONE = 400;
/** Of a longer line, so many before the head are still drawn one to one. */
export const HEAD_CELLS = 64;
/** What is kept of each list. */
export const MOST_RETRIES = 24;
export const MOST_IN_TRAY = 12;
