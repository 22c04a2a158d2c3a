// How long each test file took when it was last recorded. The sequencer starts the longest files first, and the progress
// line estimates what is left. A file that is not recorded counts as a short one, so a stale record only costs a little
// time. `DIBS_RECORD_SECONDS=1 npm test` records again.

import { readFileSync, writeFileSync } from "node:fs";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const FILE = fileURLToPath(new URL("seconds.json", import.meta.url));
const UNKNOWN = 2;

export type Seconds = Record<string, number>;

const recorded = JSON.parse(readFileSync(FILE, "utf8")) as Seconds;

export function nameOf(moduleId: string): string {
  return relative(ROOT, moduleId);
}

export function secondsOf(moduleId: string): number {
  return recorded[nameOf(moduleId)] ?? UNKNOWN;
}

/** Keeps only what is longer than an unknown file would be taken to be: the rest changes nothing. */
export function record(seconds: Seconds): void {
  const long = Object.entries(seconds).filter(([, took]) => took > UNKNOWN);
  long.sort(([a], [b]) => a.localeCompare(b));
  const rounded = long.map(([name, took]) => [name, Math.round(took)]);
  writeFileSync(FILE, `${JSON.stringify(Object.fromEntries(rounded), null, 2)}\n`);
}
