/** Which of a worker's slots each task has. A task keeps its slot, so that the others stay still when one ends. */

import type { Held, Worker } from "./cells.ts";

/** The slots that have room in a row of the picture: two lines of three if the row is tall. */
export const HANDS_IN_LINE = 3;
const TALL = 60;

export function isTall({ height }: { height: number }): boolean {
  return height > TALL;
}

export function shownHands(row: { height: number }, concurrency: number): number {
  return Math.min(isTall(row) ? 2 * HANDS_IN_LINE : HANDS_IN_LINE, Math.max(1, concurrency));
}

export function freeSlot(held: ReadonlyMap<string, Held>): number {
  const taken = new Set(Array.from(held.values(), ({ slot }) => slot));
  let slot = 0;
  while (taken.has(slot)) slot++;
  return slot;
}

/** A slot has become free: the oldest of the tasks that were claimed ahead starts in it. */
export function startNext({ held, concurrency }: Pick<Worker, "held" | "concurrency">): void {
  const slot = freeSlot(held);
  if (slot >= concurrency) return;
  const ahead = [...held.values()].filter((each) => each.slot >= concurrency);
  const next = ahead.reduce<Held | null>((a, b) => (a === null || b.slot < a.slot ? b : a), null);
  if (next) next.slot = slot;
}
