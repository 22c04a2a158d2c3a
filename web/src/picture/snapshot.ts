/** Brings the picture in line with what the store says: at the start, after a gap, and twice a second. */

import { type Cell, type Held, newCell, type Scene, type Worker } from "./cells.ts";
import { freeSlot, startNext } from "./hands.ts";

export interface LineSnapshot {
  /** Head first. */
  cells: { id: string; attempt: number }[];
}

/** The line as the store has it. Cells that were known keep their place on screen and ease to their slot. */
export function applyLine(scene: Scene, { cells }: LineSnapshot): void {
  const known = new Map<string, Cell>();
  for (const cell of [...scene.line, ...scene.retries]) known.set(cell.id, cell);
  const held = new Set<string>();
  for (const worker of scene.workers.values()) for (const id of worker.held.keys()) held.add(id);
  scene.line = cells
    .filter(({ id }) => !held.has(id))
    .map(({ id, attempt }) => {
      const cell = known.get(id) ?? newCell(id, attempt);
      cell.attempt = attempt;
      return cell;
    });
  const inLine = new Set(scene.line);
  scene.retries = scene.retries.filter((cell) => !inLine.has(cell));
}

export interface WorkerSnapshot {
  id: string;
  name: string;
  rate: number;
  concurrency: number;
  claims: number;
  isLost: boolean;
  running: { task: string; attempt: number; since: number }[];
}

/** Lost workers stay in the picture for so long, so that it is seen who was lost. */
const LOST_SHOWN_MS = 6_000;

/** Events may arrive a little later than the state that already contains what they tell. */
const EVENT_DELAY_MS = 1_000;

/**
 * @param now on the page's clock
 * @param complete when the reading began, on the store's clock, if `running` has all claimed tasks; null: it has not
 */
export function applyWorkers(
  scene: Scene,
  workers: WorkerSnapshot[],
  now: number,
  complete: number | null = null,
): void {
  const before = scene.workers;
  const after = new Map<string, Worker>();
  for (const { id, name, rate, concurrency, claims, isLost, running } of workers) {
    const known = before.get(id);
    // While cells stream, events do not say what a worker took or let go of.
    const held = scene.streaming || known === undefined ? new Map<string, Held>() : known.held;
    // What the store lists and no event has reported, for instance when the page has just been opened.
    for (const { task, attempt, since } of running)
      if (!held.has(task))
        held.set(task, { cell: newCell(task, attempt), since, slot: freeSlot(held), doubled: false });
    if (complete !== null) dropEnded(held, new Set(running.map(({ task }) => task)), complete);
    startNext({ held, concurrency });
    const state = isLost ? "lost" : held.size > 0 || claims > 0 ? "busy" : "idle";
    const lostAt = isLost ? (known?.lostAt ?? now) : null;
    after.set(id, { id, name, rate, concurrency, claims, state, held, lostAt });
  }
  for (const [id, worker] of before) {
    if (after.has(id)) continue;
    const lostAt = worker.lostAt ?? now;
    if (now - lostAt < LOST_SHOWN_MS) after.set(id, { ...worker, state: "lost", rate: 0, lostAt });
  }
  scene.workers = after;
}

/** Removes tasks whose end the page missed: before its first event, in a gap, or while the state was read. */
function dropEnded(held: Map<string, Held>, running: Set<string>, readAt: number): void {
  for (const [task, { since }] of held)
    if (since < readAt - EVENT_DELAY_MS && !running.has(task)) held.delete(task);
}

export function applyCounts(scene: Scene, counts: { ready: number; later: number; dead: number }): void {
  scene.ready = counts.ready;
  scene.later = counts.later;
  scene.dead = counts.dead;
  if (counts.dead < scene.tray.length) scene.tray = scene.tray.slice(scene.tray.length - counts.dead);
  if (counts.later === 0) scene.retries = [];
  // The line cannot be longer than the store says. The tail is what an event may still have to tell of.
  if (scene.line.length > counts.ready + SLACK) scene.line.length = counts.ready + SLACK;
}

/** Events and counts are of slightly different moments. */
const SLACK = 8;
