import type { ClaimOutcome, ClaimRequest } from "./claim-request.ts";

/**
 * What an engine reports without being asked: what its commits, and those of other processes, made possible.
 * The broker passes it on: broker/waiting-line.ts wakes claims, and workers get the notices.
 */

export interface Hint {
  /**
   * Tasks, by queue, that a commit of this process added without returning their ids to a caller: with a success, by a
   * schedule, or from a caller's transaction that it processed. Reported once, with the commit.
   */
  added?: Record<string, number>;
  /** How many tasks became ready, by queue, without those that the same batch claimed. */
  ready?: Record<string, number>;
  /** A task ended other than by a settlement of this process: callers that wait for results should check. */
  ended?: boolean;
  /** Runs that ended or have a dead part: callers that wait for their results should check. */
  runs?: string[];
  /** Milliseconds until something new is due: more tasks of a limited queue or group may start then. */
  due?: number;
  /** For claims that workers of this process hold. */
  notices?: Notice[];
  /** Another process changed the store: anything may be different. */
  foreign?: boolean;
  /** The engine has retried a waiting claim without being asked. */
  retriedClaim?: RetriedClaim;
}

/** The outcome of a retried waiting claim. */
export type RetriedClaim = { request: ClaimRequest } & ({ outcome: ClaimOutcome } | { error: Error });

/**
 * Tells a worker that something happened to one of its claims or, with `gone`, that its session ended and all claims
 * are lost.
 */
export type Notice =
  | { session: number; kind: "lost" | "timeout" | "cancel"; id: string; fence: number }
  | { session: number; kind: "gone" };
