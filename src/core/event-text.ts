import type { DibsEvent } from "./events.ts";

// An event is passed on as JSON text from the store to its readers, and parsed only where somebody looks inside. A page
// of 1,000 events takes about 3 ms to parse and to write again, which the server's clients would wait for.

const START = '{"type":"';
const GAP = `${START}gap"`;

/** Engines write the type first. */
export function typeOf(text: string): DibsEvent["type"] {
  if (!text.startsWith(START)) return (JSON.parse(text) as DibsEvent).type;
  return text.slice(START.length, text.indexOf('"', START.length)) as DibsEvent["type"];
}

/** When it happened. */
export function timeOf(text: string): number {
  return (JSON.parse(text) as DibsEvent).at;
}

export function gapText(at: number, missed: number): string {
  return JSON.stringify({ type: "gap", at, missed });
}

/** How many numbers it stands for: a gap stands for those of the events that were missed. */
export function spanOf(text: string): number {
  return text.startsWith(GAP) ? (JSON.parse(text) as { missed: number }).missed : 1;
}

export function spanOfAll(texts: readonly string[]): number {
  let sum = 0;
  for (const text of texts) sum += spanOf(text);
  return sum;
}
