import type { NextCosts } from "../core/run/stage-cost.ts";
import type { Addition, Body, TaskError } from "../core/task/task.ts";
import type { Verified } from "../core/handler/verification.ts";

/** How a claim ends: the input of the verb `settle`. The broker computes it from the caller's answer (broker/settle.ts). */

/** How a claim ends. `adds` commit with it or not at all. In a verified queue they are stored until the verdict. */
export type Settlement =
  /**
   * In a run, this also adds the task of the next stage: core/run/run.ts. With `each`, the result is a JSON array, and each
   * item becomes a part of the run. `next` gives the costs of the tasks that follow. Both are INVALID for a task
   * without a run.
   */
  | { kind: "done"; result: Body | null; adds?: Addition[]; each?: true; next?: NextCosts }
  /** A failure: scheduled again after `delay`, or dead if it was the last attempt. */
  | { kind: "fail"; error: TaskError; delay: number; outcome?: "failed" | "timeout" }
  /** Dead at once. */
  | { kind: "reject"; error: TaskError }
  /**
   * Another system's limit was met: the task returns to its position, the attempt does not count, and no task of its
   * group starts during `delay`. Without a group, this applies to the whole queue.
   */
  | { kind: "hold"; error: TaskError; delay: number }
  /**
   * The task returns to its position, now or after `delay`, and the attempt does not count. If it was not `started`, the
   * ledger gets no row.
   */
  | { kind: "release"; started: boolean; delay?: number }
  /**
   * Waits for a signal, at its position and as the head of its group, until the signal arrives or `timeout` has passed.
   * Returns at once if the signal arrived before. The attempt does not count. A signal of core/handler/children-signal.ts arrives
   * when the last of the awaited children ends.
   */
  | { kind: "park"; signal: string; timeout: number | null }
  /** A verifier's verdict on the result of another task. It has no effect if that result no longer waits for one. */
  | ({ kind: "verdict"; of: Verified } & Verdict);

/**
 * A refusal is a failed attempt: scheduled again after `delay`, without its steps (unless `keepSteps` is set) but with
 * its signals, or dead if it was the last.
 */
export type Verdict =
  | { accepted: true }
  | { accepted: false; feedback: string; delay: number; keepSteps?: true };
