import { DibsError } from "../errors/errors.ts";
import type { QueuePolicy } from "../queue/policy.ts";

/**
 * The lease rule, in awake milliseconds. A session's claims live as long as its heartbeats come within their lease. A
 * manual claim lives until its deadline. The engines decide by these functions, or by the same comparison in SQL.
 */

/** A session that has not sent a heartbeat for its whole lease has ended, even if no sweep has found it yet. */
export function isSilent(
  { heartbeatAt, lease }: { heartbeatAt: number; lease: number },
  awake: number,
): boolean {
  return heartbeatAt + lease <= awake;
}

/**
 * The lease of a claim: the one that the request names, or the queue's. A session sends heartbeats in the rhythm of its
 * own lease, so that a claim with a shorter one would be lost between two heartbeats.
 */
export function leaseOfClaim(
  requested: number | undefined,
  policy: Pick<QueuePolicy, "lease">,
  session: { lease: number } | null,
): number {
  const named = requested ?? policy.lease;
  return session === null ? named : Math.max(named, session.lease);
}

/** When a claim ends by itself: a manual claim after its lease, a session's claim after the queue's timeout. */
export function deadlineOf(
  lease: number,
  policy: Pick<QueuePolicy, "timeout">,
  session: { lease: number } | null,
  awake: number,
): number {
  return awake + (session === null ? lease : policy.timeout);
}

export function sessionGone(session: number): DibsError {
  return new DibsError(
    "CLAIM_LOST",
    `Session ${session} has ended: it sent no heartbeat for a whole lease, and its tasks went to other workers. Join again.`,
  );
}
