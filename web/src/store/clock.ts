/** The store's time, which ages and distances are measured by. It ticks twice a second: numbers change no more often. */

import { signal } from "@preact/signals";

/** Milliseconds to add to this machine's time. */
let offset = 0;

export const now = signal(Date.now());

export function setServerTime(serverNow: number): void {
  offset = serverNow - Date.now();
}

/** Exact, for what is drawn in each frame. */
export function serverNow(): number {
  return Date.now() + offset;
}

setInterval(() => {
  if (!document.hidden) now.value = serverNow();
}, 500);
