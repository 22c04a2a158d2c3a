import type { QueuePolicy } from "../queue/policy.ts";
import type { NextCosts } from "../run/stage-cost.ts";
import type { Addition, Body, ClaimedTask, ClaimRef, TaskError } from "./task.ts";
import type { Verified } from "../handler/verification.ts";

/** The types with which callers of the port claim and settle, and what the port returns about claims. */

export interface ClaimCall {
  queues: string[];
  max: number;
  worker: string;
  /** First take at most this many from each queue, for fairness among queues. */
  share?: number | undefined;
  session?: number | undefined;
  lease?: number | undefined;
  /** How long to wait for the first task; 0: do not wait. */
  wait: number;
  signal?: AbortSignal | undefined;
}

export interface ClaimResult {
  tasks: ClaimedTask[];
  policies: Record<string, QueuePolicy>;
}

/** A claim, with what is needed to compute its backoff. */
export interface SettleRef extends ClaimRef {
  queue: string;
  attempt: number;
}

/** How a holder settles its claim. */
export type SettleCall = SettleOutcome & {
  /** The real cost in rate limits with a unit, if it differs from the task's cost. */
  spent?: number;
};

type SettleOutcome =
  /**
   * With `each`, the result is a JSON array, and each item becomes a part of the run. `next`: costs of the tasks that
   * follow in the run.
   */
  | { kind: "ack"; result: Body | null; adds?: Addition[]; each?: boolean; next?: NextCosts }
  /** Without `delay`, the queue's backoff decides. */
  | { kind: "nack"; error: TaskError; delay?: number | undefined; outcome?: "failed" | "timeout" }
  /**
   * Another system's limit was met: the attempt does not count, and the group, or the queue, waits for `delay` or the
   * backoff.
   */
  | { kind: "hold"; error: TaskError; delay?: number | undefined }
  | { kind: "reject"; error: TaskError }
  /** Returns the task to its position, now or after `delay`. The attempt does not count. */
  | { kind: "release"; started: boolean; delay?: number | undefined }
  /** Waits for a signal, or for children (children-signal.ts), for at most `timeout`, and occupies no worker meanwhile. */
  | { kind: "park"; signal: string; timeout: number | null }
  /** A verifier's verdict about the result of another task. */
  | { kind: "accept"; of: Verified }
  | {
      kind: "refuse";
      of: Verified & { queue: string; attempt: number };
      feedback: string;
      keepSteps?: boolean;
    };

export type ClaimNotice =
  | { kind: "lost" | "timeout" | "cancel"; id: string; fence: number }
  | { kind: "gone" };

/** The status of a valid claim, which extend and progress return to its holder. */
export interface ClaimStatus {
  /** A cancel was requested. The holder should stop: the task ends cancelled, whatever the settlement. */
  cancelRequested: boolean;
}
