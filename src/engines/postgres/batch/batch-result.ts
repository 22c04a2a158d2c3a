import type { Hint } from "../../../engine/hint.ts";
import type { Outcome } from "../../../engine/engine.ts";
import type { CommitMark } from "../connection/incarnation.ts";

/** What a batch returns to the engine, besides the outcomes of its operations. */
export interface BatchResult {
  outcomes: Outcome[];
  hint: Hint;
  /** Something was written. */
  changed: boolean;
  /** Notices were written for sessions. */
  hasNotices: boolean;
  /** Queues whose floors were lowered for tasks that are gone from the line now. */
  loweredFloors: readonly string[];
  /** Some process listens to events. */
  hasListeners: boolean;
  /** The inbox has entries that this batch could not process, because it only reads. */
  hasInbox: boolean;
  /** It left inbox entries that only a batch after another transaction's commit can process. */
  leftInboxEntries: boolean;
  /** The commit itself has notified other processes. */
  isNotified: boolean;
}

export interface RunOptions {
  /**
   * Called when everything is sent and nothing can wait for a lock: the next batch may begin behind it. With this 72
   * (69 to 74) thousand tasks a second were added, one call each, and 46 (40 to 62) without it; one producer with two
   * consumers had 19 (17 to 21) and 16 (15 to 18). Medians and ranges of three interleaved rounds.
   */
  onSent?: () => void;
  /** The message with which the commit notifies other processes, if any. */
  messageFor?: (result: BatchResult) => string | undefined;
}

/** The connection was lost after the commit was sent and before its answer. */
export class CommitLost extends Error {
  /** What the batch returns if it was committed. */
  readonly result: BatchResult;
  readonly mark: CommitMark;

  constructor(cause: unknown, { result, mark }: { result: BatchResult; mark: CommitMark }) {
    super("The connection was lost during a commit.", { cause });
    this.result = result;
    this.mark = mark;
  }

  override get name(): string {
    return "CommitLost";
  }
}
