import type { ClaimOutcome, ClaimRequest } from "./claim-request.ts";

/**
 * How a claim divides its tasks between queues; every engine's `claim` uses it. In a round each queue gives at most a
 * share. The rest is divided again between the queues that gave their whole share, so a claim with a share is fair even
 * if few of its queues have tasks. Without a share there is one round: the first queue that has tasks gives as many as
 * it can.
 */
export interface Round {
  /** In the order of the request. */
  queues: string[];
  /** The most that each of them gives. */
  share: number;
}

export function firstRound({ queues, share, max }: ClaimRequest): Round {
  return { queues, share: share ?? max };
}

/** `generous`: the queues that gave their whole share. Undefined: the claim is over. */
export function nextRound(
  { max }: ClaimRequest,
  { tasks }: ClaimOutcome,
  generous: string[],
): Round | undefined {
  const room = max - tasks.length;
  if (room <= 0 || generous.length === 0) return undefined;
  return { queues: generous, share: Math.ceil(room / generous.length) };
}
