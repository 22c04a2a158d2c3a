import { DEFAULT_POLICY, type GroupPolicy } from "../../../src/core/queue/policy.ts";
import type { Port } from "../../../src/core/port.ts";
import type { RateLimit } from "../../../src/core/queue/rate.ts";
import { ack, claim, claimOne, QUEUE } from "./kit.ts";

/** Helpers of the cases about limits. */

export function rate(max: number, per: number, more: Partial<RateLimit> = {}): RateLimit {
  return { max, per, pace: false, unit: null, ...more };
}

/** Sets the group policy of the queue; the other fields are the defaults. */
export async function govern(port: Port, groups: Partial<GroupPolicy>): Promise<void> {
  await port.declare(QUEUE, { groups: { ...DEFAULT_POLICY.groups, ...groups } });
}

/** Claims and acks one task after the other, and returns their payloads. */
export async function workOff(port: Port, count: number): Promise<string[]> {
  const seen: string[] = [];
  for (let i = 0; i < count; i++) {
    const held = await claimOne(port);
    seen.push(held.data as string);
    await ack(port, held);
  }
  return seen;
}

/** How many tasks can be claimed now. They stay claimed. */
export async function countClaimed(port: Port): Promise<number> {
  return (await claim(port, { max: 1_000, lease: 86_400_000 })).length;
}
