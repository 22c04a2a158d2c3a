/** How an event of a task changes the picture. Pure: the same moves lead to the same scene. */

import {
  type Cell,
  type Flight,
  type Held,
  MOST_IN_TRAY,
  MOST_RETRIES,
  newCell,
  ONE_TO_ONE,
  type Place,
  type Scene,
  type Worker,
} from "./cells.ts";
import { freeSlot, startNext } from "./hands.ts";

export interface Move {
  kind: "added" | "claimed" | "done" | "failed" | "dead" | "released" | "left" | "removed" | "ready";
  task: string;
  /** The worker's instance; absent if no worker held the task. */
  worker?: string | undefined;
  attempt?: number | undefined;
  /** On the store's clock. */
  at: number;
}

const GLIDE_MS = 160;
const RETURN_MS = 340;
const FALL_MS = 300;
const FLASH_MS = 220;

/** @param now on the page's clock */
export function applyMove(scene: Scene, move: Move, now: number): void {
  switch (move.kind) {
    case "added":
      return enterLine(scene, cellOf(scene, move), { at: "producers" }, now, -10);
    case "claimed":
      return claim(scene, move, now);
    case "done":
      return end(scene, move, now);
    case "failed":
      return fail(scene, move, now);
    case "dead":
      return die(scene, move, now);
    case "released":
      return release(scene, move, now);
    case "left":
    case "removed":
      return leave(scene, move, now);
    case "ready":
      return becomeReady(scene, move, now);
  }
}

function claim(scene: Scene, move: Move, now: number): void {
  const worker = workerOf(scene, move.worker);
  const holders = [...scene.workers.values()].filter(
    (each) => each.id !== worker.id && each.held.has(move.task),
  );
  const known = takeWaiting(scene, move.task);
  const cell = known?.cell ?? cellOf(scene, move);
  cell.attempt = move.attempt ?? cell.attempt;
  const slot = freeSlot(worker.held);
  const held: Held = { cell, since: move.at, slot, doubled: holders.length > 0 };
  for (const holder of holders) holder.held.get(move.task)!.doubled = true;
  worker.held.set(move.task, held);
  worker.state = "busy";
  const from: Place = known?.from ?? { at: "line", cell: newCell(move.task, cell.attempt) };
  fly(scene, {
    cell,
    from,
    to: { at: "worker", id: worker.id, slot },
    startedAt: now,
    duration: GLIDE_MS,
    arc: 0,
  });
}

function end(scene: Scene, move: Move, now: number): void {
  const from = letGo(scene, move);
  if (!from) return;
  const { cell, place } = from;
  fly(scene, {
    ...{ cell, from: place, to: above(place), startedAt: now },
    ...{ duration: FLASH_MS, arc: 0, look: "passed" },
  });
}

/** Back to the line in a low arc, to wait for its next attempt there. */
function fail(scene: Scene, move: Move, now: number): void {
  const from = letGo(scene, move);
  const cell = from?.cell ?? cellOf(scene, move);
  cell.attempt = (move.attempt ?? cell.attempt) + 1;
  scene.retries = [...scene.retries.filter(({ id }) => id !== cell.id), cell].slice(-MOST_RETRIES);
  if (!from) return;
  const to: Place = { at: "retries", cell };
  fly(scene, { cell, from: from.place, to, startedAt: now, duration: RETURN_MS, arc: 46 });
}

function die(scene: Scene, move: Move, now: number): void {
  const from = letGo(scene, move) ?? takeWaiting(scene, move.task);
  const cell = from?.cell ?? cellOf(scene, move);
  scene.tray = [...scene.tray.filter(({ id }) => id !== cell.id), cell].slice(-MOST_IN_TRAY);
  scene.dead++;
  const place: Place | undefined = from && ("place" in from ? from.place : from.from);
  if (!place) return;
  fly(scene, { cell, from: place, to: { at: "tray" }, startedAt: now, duration: FALL_MS, arc: 24 });
}

function release(scene: Scene, move: Move, now: number): void {
  const from = letGo(scene, move);
  if (!from) return;
  const { cell, place } = from;
  scene.line.unshift(cell);
  fly(scene, { cell, from: place, to: { at: "line", cell }, startedAt: now, duration: RETURN_MS, arc: 46 });
}

/** Parked or handed to a verifier ("left"), cancelled or expired ("removed"): it goes without a flash. */
function leave(scene: Scene, move: Move, now: number): void {
  const from = letGo(scene, move) ?? takeWaiting(scene, move.task);
  if (!from || scene.streaming) return;
  const place = "place" in from ? from.place : from.from;
  const to = above(place);
  fly(scene, { cell: from.cell, from: place, to, startedAt: now, duration: FLASH_MS, arc: 0, look: "faded" });
}

/** A retry that is due, a delayed task whose time has come, a dead letter that was redriven. */
function becomeReady(scene: Scene, move: Move, now: number): void {
  const inTray = scene.tray.find(({ id }) => id === move.task);
  scene.tray = scene.tray.filter(({ id }) => id !== move.task);
  if (inTray) {
    scene.dead = Math.max(0, scene.dead - 1);
    inTray.attempt = move.attempt ?? 1;
    return enterLine(scene, inTray, { at: "tray" }, now, -24);
  }
  const waiting = takeWaiting(scene, move.task);
  enterLine(scene, waiting?.cell ?? cellOf(scene, move), waiting?.from ?? { at: "producers" }, now, -10);
}

function enterLine(scene: Scene, cell: Cell, from: Place, now: number, arc: number): void {
  scene.ready++;
  // What is not drawn one to one is known by its count only.
  if (scene.line.length >= ONE_TO_ONE) return;
  scene.line.push(cell);
  fly(scene, { cell, from, to: { at: "line", cell }, startedAt: now, duration: 260, arc });
}

/** Takes a cell out of the line or the retries, and says where it was. */
function takeWaiting(scene: Scene, id: string): { cell: Cell; from: Place } | undefined {
  const inLine = scene.line.findIndex((cell) => cell.id === id);
  if (inLine >= 0) {
    const [cell] = scene.line.splice(inLine, 1);
    scene.ready = Math.max(0, scene.ready - 1);
    return { cell: cell!, from: placeOf(cell!, { at: "line", cell: cell! }) };
  }
  const retry = scene.retries.find((cell) => cell.id === id);
  if (!retry) return undefined;
  scene.retries = scene.retries.filter((cell) => cell !== retry);
  return { cell: retry, from: placeOf(retry, { at: "retries", cell: retry }) };
}

/** Where it was drawn last, or where it would be. */
function placeOf({ x, y }: Cell, otherwise: Place): Place {
  return x === null || y === null ? otherwise : { at: "point", x, y };
}

function letGo(scene: Scene, { worker: id, task }: Move): { cell: Cell; place: Place } | undefined {
  const named = id === undefined ? undefined : scene.workers.get(id);
  const worker = named?.held.has(task)
    ? named
    : [...scene.workers.values()].find(({ held }) => held.has(task));
  if (!worker) return undefined;
  const { cell, slot } = worker.held.get(task)!;
  worker.held.delete(task);
  startNext(worker);
  if (worker.held.size === 0 && worker.state === "busy") worker.state = "idle";
  for (const other of scene.workers.values()) {
    const rest = other.held.get(task);
    if (rest) rest.doubled = false;
  }
  return { cell, place: { at: "worker", id: worker.id, slot } };
}

/** Out of a worker's slot upwards; other cells stay where they are. */
function above(place: Place): Place {
  return place.at === "worker" ? { ...place, at: "above" } : place;
}

function cellOf(scene: Scene, { task, attempt = 1 }: Move): Cell {
  return scene.line.find(({ id }) => id === task) ?? newCell(task, attempt);
}

/** A worker that the page has not heard of yet: its claim comes before the next list of workers. */
function workerOf(scene: Scene, id = "unknown"): Worker {
  const known = scene.workers.get(id);
  if (known) return known;
  const worker: Worker = {
    ...{ id, name: id, state: "idle", rate: 0, concurrency: 1, held: new Map(), claims: 0, lostAt: null },
  };
  scene.workers.set(id, worker);
  return worker;
}

function fly(scene: Scene, flight: Omit<Flight, "look"> & Partial<Pick<Flight, "look">>): void {
  if (scene.streaming) return;
  scene.flights.push({ look: "cell", ...flight });
}

/** Removes the flights that have landed. Their cells are drawn where they are from now on. */
export function land(scene: Scene, now: number): void {
  if (scene.flights.some(({ startedAt, duration }) => now - startedAt >= duration))
    scene.flights = scene.flights.filter(({ startedAt, duration }) => now - startedAt < duration);
  if (scene.gap && now - scene.gap.at > GAP_SHOWN_MS) scene.gap = null;
}

const GAP_SHOWN_MS = 4_000;
