import { PerformanceObserver } from "node:perf_hooks";
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";

/** The young generation stops growing at this size: two halves of 16 MiB, of which one is in use. */
const YOUNG_BYTES = 30_000_000;

/**
 * Called before a server's code is loaded. Loading makes so much garbage, and so much that stays, that V8 would let the
 * young generation grow to 14 MB, which an idle server keeps. It begins with 2 MB. `boundHeap` lets it grow.
 */
export function keepYoungSmall(): void {
  setFlagsFromString("--semi-space-growth-factor=1");
}

/**
 * Keeps the heap of a server process in proportion to what it stores. On a machine with much memory, V8 lets the young
 * generation grow to 134 MB, and collects the old one when it is four times as large as what is alive: a server with 40
 * MB of live data took 460 MB. With these bounds it takes 250 MB. Called when the server listens, for a process that only
 * serves, never for one that belongs to a user's program: the flags apply to the whole process.
 */
export function boundHeap(): void {
  setFlagsFromString("--semi-space-growth-factor=2");
  // Collect when the heap is twice as large as what was alive at the last collection.
  setFlagsFromString("--heap-growing-percent=100");
  // The limit of the young generation is fixed when the process starts, but its growth can be stopped later.
  const observer = new PerformanceObserver(() => {
    const young = getHeapSpaceStatistics().find(({ space_name: name }) => name === "new_space");
    if (!young || young.space_size < YOUNG_BYTES) return;
    setFlagsFromString("--semi-space-growth-factor=1");
    observer.disconnect();
  });
  observer.observe({ entryTypes: ["gc"] });
}
