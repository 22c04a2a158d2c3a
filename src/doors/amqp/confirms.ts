import type { Channel } from "./channel.ts";

/**
 * The confirms of one channel. Answers of the store are confirmed once per turn of the event loop: one ack with
 * `multiple` for all that are settled in a row, and single ones for the others.
 */
export class Confirms {
  readonly #channel: Channel;
  #last = 0;
  /** All up to this one are confirmed. */
  #through = 0;
  /** Tags above `#through` that are not confirmed yet, with whether their message was stored. */
  readonly #settled = new Map<number, boolean>();
  #isScheduled = false;
  #isEnded = false;

  constructor(channel: Channel) {
    this.#channel = channel;
  }

  next(): number {
    return ++this.#last;
  }

  settleAll(published: readonly { tag: number }[]): void {
    for (const { tag } of published) this.settle(tag, true);
  }

  settle(tag: number, isStored: boolean): void {
    if (tag === 0 || this.#isEnded) return;
    this.#settled.set(tag, isStored);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    process.nextTick(() => this.#confirm());
  }

  #confirm(): void {
    this.#isScheduled = false;
    if (this.#isEnded) return;
    const first = this.#through + 1;
    let through = this.#through;
    while (this.#settled.get(through + 1) === true) this.#settled.delete(++through);
    if (through > this.#through) {
      this.#through = through;
      this.#channel.send("basic.ack", { deliveryTag: through, multiple: through > first });
    }
    for (const [tag, isStored] of this.#settled) {
      if (isStored) {
        // Confirm it alone now. `#through` passes it when all messages before it are confirmed.
        this.#channel.send("basic.ack", { deliveryTag: tag, multiple: false });
        this.#confirmed.add(tag);
      } else {
        this.#channel.send("basic.nack", { deliveryTag: tag, multiple: false, requeue: false });
        this.#confirmed.add(tag);
      }
      this.#settled.delete(tag);
    }
    while (this.#confirmed.delete(this.#through + 1)) this.#through++;
  }

  /** Tags above `#through` that are already confirmed. */
  readonly #confirmed = new Set<number>();

  end(): void {
    this.#isEnded = true;
    this.#settled.clear();
  }
}
