import { checkFloors, raiseFloors, Raising } from "../line/floors.ts";
import type { BatchResult } from "./batch-result.ts";
import type { Sender } from "./sender.ts";

/**
 * Raises the floors of the lines (line/floors.ts) after batches that have claimed, on the settling connection: raising
 * them waits for all open batches, and no read or claim may be queued behind that.
 */
export class FloorMaintenance {
  readonly #sender: Sender;
  readonly #warn: (message: string) => void;
  readonly #raising = new Raising();
  #isClosed = false;

  constructor(sender: Sender, warn: (message: string) => void) {
    this.#sender = sender;
    this.#warn = warn;
  }

  noteClaimed(tasks: readonly { queue: string }[]): void {
    this.#raising.note(tasks);
  }

  /** A batch was committed. */
  async after({ loweredFloors }: BatchResult): Promise<void> {
    this.#raising.noteLoweredFloors(loweredFloors);
    if (this.#isClosed) return;
    await Promise.all([this.#raise(), this.#check()]);
  }

  async #raise(): Promise<void> {
    const due = this.#raising.take();
    if (!due) return;
    try {
      await this.#sender.queryOnce(({ link }) => raiseFloors(link, due.queues, due.patience));
      this.#raising.raised();
    } catch {
      // A batch has been open for long, or the server is unreachable: claims go on reading from the old floors.
      this.#raising.failed(due.queues);
    }
  }

  async #check(): Promise<void> {
    if (!this.#raising.takeCheck()) return;
    try {
      await this.#sender.queryOnce(({ link }) => checkFloors(link));
      this.#raising.checked(true);
    } catch (error) {
      this.#raising.checked(false);
      if (!this.#isClosed) this.#warn(notChecked(error));
    }
  }

  /** Starts nothing more. */
  stop(): void {
    this.#isClosed = true;
  }
}

function notChecked(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return `dibs could not check whether tasks are below the positions where claims start reading (${message}). It retries in half a minute.`;
}
