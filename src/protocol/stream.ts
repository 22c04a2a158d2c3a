import { type Clock, startTimer } from "../core/time/clock.ts";
import type { Frame } from "./messages.ts";

/** A frame is sent once it has this many characters, without waiting for the end of the current turn. */
const FRAME_SIZE = 256 * 1024;
/**
 * An acknowledgement waits this long for a frame that it can join: a separate one costs both sides as much as a frame.
 */
const ACK_MS = 5;
/** Most bytes of a frame besides its items; and most bytes per character. */
const FRAME_BYTES = 100;
const CHARACTER_BYTES = 3;

interface Sent {
  seq: number;
  items: string;
}

/**
 * The frames of one direction and the acknowledgements of the other, on both sides of the wire. Items that are sent in
 * the same turn share a frame. Unacknowledged frames are stored, and sent again through the connection that resumes.
 *
 *   detached ──attach──▶ attached ──detach──▶ detached …     items sent while detached wait for the next attach
 */
export class Stream {
  readonly #clock: Clock;
  #write: ((text: string) => void) | undefined;
  /** Characters of a frame with several items. A single item may be longer. */
  #frameSize = FRAME_SIZE;
  #waiting: string[] = [];
  #waitingSize = 0;
  #unacked: Sent[] = [];
  #unackedSize = 0;
  #seq = 0;
  #received = 0;
  #isAckDue = false;
  #isPingDue = false;
  #isAckTimed = false;
  #isFlushScheduled = false;
  #inFlight: { done: () => void } | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The last frame received from the other side. */
  get received(): number {
    return this.#received;
  }

  /** Unacknowledged characters without the oldest frame: one frame may be of any size. */
  get backlog(): number {
    return this.#unackedSize - (this.#unacked[0]?.items.length ?? 0);
  }

  /** Characters that the other side has not acknowledged, sent or not. */
  get unread(): number {
    return this.#waitingSize + this.#unackedSize;
  }

  /** The number of the oldest unacknowledged frame; undefined if there is none. */
  get oldest(): number | undefined {
    return this.#unacked[0]?.seq;
  }

  /** The other side refuses larger frames: one that is too long would be sent again and again. */
  limit(bytes: number): void {
    this.#frameSize = Math.min(FRAME_SIZE, Math.floor((bytes - FRAME_BYTES) / CHARACTER_BYTES));
  }

  /** @param item encoded */
  send(item: string): void {
    this.#waiting.push(item);
    this.#waitingSize += item.length + 1;
    if (this.#waitingSize >= this.#frameSize) this.#flush();
    else this.#scheduleFlush();
  }

  /** Requests an acknowledgement, to check that the other side is alive. */
  ping(): void {
    this.#isPingDue = true;
    this.#scheduleFlush();
  }

  /** @param through the last frame that the other side received: later ones are sent again. */
  attach(write: (text: string) => void, through: number): void {
    this.#acknowledge(through);
    this.#write = write;
    for (const { seq, items } of this.#unacked) write(frame(seq, this.#received, items));
    this.#scheduleFlush();
  }

  detach(): void {
    this.#write = undefined;
    this.#releaseTestClock();
  }

  /** Whether no frame before it is missing. */
  isNext({ seq = 0 }: Frame): boolean {
    return seq <= this.#received + 1;
  }

  /** Returns the items that are new. */
  receive({ seq, ack, items = [] }: Frame): unknown[] {
    this.#acknowledge(ack);
    if (seq === undefined) return [];
    this.#isAckDue = true;
    // A frame without items is a ping.
    if (items.length === 0) this.#scheduleFlush();
    else this.#ackSoon();
    if (seq <= this.#received) return [];
    this.#received = seq;
    return items;
  }

  #acknowledge(ack: number): void {
    while (this.#unacked[0] && this.#unacked[0].seq <= ack)
      this.#unackedSize -= this.#unacked.shift()!.items.length;
    if (this.#unacked.length === 0 && this.#waiting.length === 0 && !this.#isPingDue)
      this.#releaseTestClock();
  }

  #ackSoon(): void {
    if (this.#isAckTimed) return;
    this.#isAckTimed = true;
    startTimer(ACK_MS, () => {
      this.#isAckTimed = false;
      if (this.#isAckDue) this.#flush();
    });
  }

  /**
   * Runs after the promise callbacks of this turn, so that an answer and the acknowledgement of its call share a frame.
   */
  #scheduleFlush(): void {
    if (!this.#write) return;
    this.#freezeTestClock();
    if (this.#isFlushScheduled) return;
    this.#isFlushScheduled = true;
    setImmediate(() => {
      this.#isFlushScheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (!this.#write) return;
    if (this.#waiting.length === 0 && !this.#isPingDue) {
      if (this.#isAckDue) this.#write(`{"ack":${this.#received}}`);
    } else {
      do this.#writeFrame(this.#takeItems());
      while (this.#waiting.length > 0);
    }
    this.#isAckDue = false;
    if (this.#unacked.length === 0) this.#releaseTestClock();
  }

  /** As many items as a frame may have, and at least one. */
  #takeItems(): string {
    if (this.#waitingSize <= this.#frameSize) {
      const all = this.#waiting.join(",");
      this.#waiting = [];
      this.#waitingSize = 0;
      return all;
    }
    let [count, size] = [0, 0];
    for (const item of this.#waiting) {
      size += item.length + 1;
      if (count > 0 && size > this.#frameSize) break;
      count++;
    }
    const items = this.#waiting.splice(0, count);
    for (const item of items) this.#waitingSize -= item.length + 1;
    return items.join(",");
  }

  #writeFrame(items: string): void {
    this.#isPingDue = false;
    this.#unacked.push({ seq: ++this.#seq, items });
    this.#unackedSize += items.length;
    this.#freezeTestClock();
    this.#write?.(frame(this.#seq, this.#received, items));
  }

  /** A test's clock does not advance while a frame is on the wire. */
  #freezeTestClock(): void {
    if (!this.#clock.standStill || this.#inFlight) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#inFlight = { done: resolve };
    this.#clock.standStill(promise);
  }

  #releaseTestClock(): void {
    this.#inFlight?.done();
    this.#inFlight = undefined;
  }
}

function frame(seq: number, ack: number, items: string): string {
  return items === "" ? `{"seq":${seq},"ack":${ack}}` : `{"seq":${seq},"ack":${ack},"items":[${items}]}`;
}

/** Whether the value has the shape of a frame. Its items are not checked. */
export function isFrame(value: unknown): value is Frame {
  if (typeof value !== "object" || value === null) return false;
  const { seq, ack, items } = value as Partial<Frame>;
  return (
    Number.isSafeInteger(ack) &&
    (seq === undefined || (Number.isSafeInteger(seq) && seq > 0)) &&
    (items === undefined || Array.isArray(items))
  );
}
