import type { Hint, Outcome } from "../../../engine/engine.ts";
import type { CommitMark } from "../connection/incarnation.ts";

/** What became of a batch. */
export interface BatchResult {
  outcomes: Outcome[];
  /** How many times something had to be done that most operations do not need: other rows than those of a plain task. */
  special: number;
  hint: Hint;
  /** Something was written. */
  changed: boolean;
  /** Notices were left for sessions. */
  noticed: boolean;
  /** Queues from which something was taken that had lowered their floors. */
  stirred: readonly string[];
  /** Somebody follows the events. */
  listened: boolean;
  /** Others' transactions had left something that this batch, which only reads, could not take up. */
  hasInbox: boolean;
  /** It left something for a batch that comes after others' commits, and those are under way. */
  leftInboxEntries: boolean;
  /** The commit itself has told others of it. */
  told: boolean;
}

export interface RunOptions {
  /** Called when all has been sent and cannot meet anybody's lock: the next batch may begin, behind it. */
  onSent?: () => void;
  /** What the commit itself is to tell others, if anything. */
  messageFor?: (ran: BatchResult) => string | undefined;
}

/** The commit was under way when the connection was lost. */
export class CommitLost extends Error {
  /** What would have been answered. */
  readonly ran: BatchResult;
  /** By which the server can be asked what became of it. */
  readonly mark: CommitMark;

  constructor(cause: unknown, { ran, mark }: { ran: BatchResult; mark: CommitMark }) {
    super("The connection was lost during a commit.", { cause });
    this.ran = ran;
    this.mark = mark;
  }

  override get name(): string {
    return "CommitLost";
  }
}
