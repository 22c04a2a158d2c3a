import { PARTNERS } from "./payloads.ts";

/** One partner after the other is down, for 40 seconds each, and half of the time none is. */
const OUTAGE_MS = 40_000;

export function isDown(partner: number): boolean {
  return Math.floor(Date.now() / OUTAGE_MS) % (PARTNERS * 2) === partner * 2 - 1;
}
