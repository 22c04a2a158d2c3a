/** The numbers that every page shows, as the stream brings them: totals, bulk jobs, and the rows of all queues. */

import { signal } from "@preact/signals";
import type { BulkJob, LiveFrame, QueueRow, TotalsFrame } from "../api/contract.ts";
import { onFrame } from "../api/live.ts";
import { setServerTime } from "./clock.ts";
import { mergeRows } from "./merge-rows.ts";

export const totals = signal<TotalsFrame | null>(null);
export const jobs = signal<BulkJob[]>([]);
/** By name; null: not known yet. */
export const queues = signal<ReadonlyMap<string, QueueRow> | null>(null);

export function startFigures(): void {
  onFrame(takeFrame);
}

function takeFrame(frame: LiveFrame): void {
  switch (frame.type) {
    case "hello":
    case "beat":
      return setServerTime(frame.now);
    case "totals":
      setServerTime(frame.now);
      totals.value = frame;
      return;
    case "jobs":
      jobs.value = frame.jobs;
      return;
    case "queues":
      queues.value = mergeRows(frame.reset ? null : queues.peek(), frame);
      return;
    default:
  }
}
