import { type Clock, startTimer } from "../core/clock.ts";
import type { Frame } from "./messages.ts";

/** A frame is sent when it has this many characters, without waiting for the end of the moment. */
const ENOUGH = 256 * 1024;
/** An acknowledgement waits this long for a frame to go with: alone it would cost both sides as much as one. */
const ACK_MS = 5;
/** What a frame has beside its items, in bytes at most; and the most bytes that a character takes. */
const FRAME_BYTES = 100;
const CHARACTER_BYTES = 3;

interface Sent {
  seq: number;
  items: string;
}

/**
 * One direction's frames and the other's acknowledgements, on both sides of the wire. Items of one moment share a
 * frame. What is not acknowledged is kept, and sent again through the connection that resumes.
 *
 *   detached ──attach──▶ attached ──detach──▶ detached …     items that come meanwhile wait for the next attach
 */
export class Stream {
  readonly #clock: Clock;
  #write: ((text: string) => void) | undefined;
  /** Characters of a frame with several items; a single one may be longer. */
  #enough = ENOUGH;
  #waiting: string[] = [];
  #waitingSize = 0;
  #unacked: Sent[] = [];
  #unackedSize = 0;
  #seq = 0;
  #received = 0;
  #oweAck = false;
  #oweFrame = false;
  #isAckTimed = false;
  #flushAsked = false;
  #inFlight: { done: () => void } | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The last frame that came through from the other side. */
  get received(): number {
    return this.#received;
  }

  /** Characters sent and not acknowledged, those of the oldest frame left out: one is let through, however large. */
  get backlog(): number {
    return this.#unackedSize - (this.#unacked[0]?.items.length ?? 0);
  }

  /** Characters that the other side has not acknowledged, sent or not. */
  get unread(): number {
    return this.#waitingSize + this.#unackedSize;
  }

  /** The number of the oldest frame that is not acknowledged; undefined where all are. */
  get oldest(): number | undefined {
    return this.#unacked[0]?.seq;
  }

  /** The other side takes no frame of more bytes: one that is too long would be sent again and again. */
  limit(bytes: number): void {
    this.#enough = Math.min(ENOUGH, Math.floor((bytes - FRAME_BYTES) / CHARACTER_BYTES));
  }

  /** @param item encoded */
  send(item: string): void {
    this.#waiting.push(item);
    this.#waitingSize += item.length + 1;
    if (this.#waitingSize >= this.#enough) this.#flush();
    else this.#askFlush();
  }

  /** Asks for a sign of life. */
  ping(): void {
    this.#oweFrame = true;
    this.#askFlush();
  }

  /** @param through the last frame that the other side says came through: later ones are sent again. */
  attach(write: (text: string) => void, through: number): void {
    this.#acknowledge(through);
    this.#write = write;
    for (const { seq, items } of this.#unacked) write(frame(seq, this.#received, items));
    this.#askFlush();
  }

  detach(): void {
    this.#write = undefined;
    this.#landed();
  }

  /** Whether none is missing before it. */
  isNext({ seq = 0 }: Frame): boolean {
    return seq <= this.#received + 1;
  }

  /** Answers what is new in it. */
  receive({ seq, ack, items = [] }: Frame): unknown[] {
    this.#acknowledge(ack);
    if (seq === undefined) return [];
    this.#oweAck = true;
    // One without items asks for a sign of life.
    if (items.length === 0) this.#askFlush();
    else this.#ackSoon();
    if (seq <= this.#received) return [];
    this.#received = seq;
    return items;
  }

  #acknowledge(ack: number): void {
    while (this.#unacked[0] && this.#unacked[0].seq <= ack)
      this.#unackedSize -= this.#unacked.shift()!.items.length;
    if (this.#unacked.length === 0 && this.#waiting.length === 0 && !this.#oweFrame) this.#landed();
  }

  #ackSoon(): void {
    if (this.#isAckTimed) return;
    this.#isAckTimed = true;
    startTimer(ACK_MS, () => {
      this.#isAckTimed = false;
      if (this.#oweAck) this.#flush();
    });
  }

  /** After the promise callbacks of this turn: an answer and the acknowledgement of its question share a frame. */
  #askFlush(): void {
    if (!this.#write) return;
    this.#tookOff();
    if (this.#flushAsked) return;
    this.#flushAsked = true;
    setImmediate(() => {
      this.#flushAsked = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (!this.#write) return;
    if (this.#waiting.length === 0 && !this.#oweFrame) {
      if (this.#oweAck) this.#write(`{"ack":${this.#received}}`);
    } else {
      do this.#writeFrame(this.#takeItems());
      while (this.#waiting.length > 0);
    }
    this.#oweAck = false;
    if (this.#unacked.length === 0) this.#landed();
  }

  /** As many as a frame may have, and one at least. */
  #takeItems(): string {
    if (this.#waitingSize <= this.#enough) {
      const all = this.#waiting.join(",");
      this.#waiting = [];
      this.#waitingSize = 0;
      return all;
    }
    let [count, size] = [0, 0];
    for (const item of this.#waiting) {
      size += item.length + 1;
      if (count > 0 && size > this.#enough) break;
      count++;
    }
    const items = this.#waiting.splice(0, count);
    for (const item of items) this.#waitingSize -= item.length + 1;
    return items.join(",");
  }

  #writeFrame(items: string): void {
    this.#oweFrame = false;
    this.#unacked.push({ seq: ++this.#seq, items });
    this.#unackedSize += items.length;
    this.#tookOff();
    this.#write?.(frame(this.#seq, this.#received, items));
  }

  /** A test's clock stands still while something is on the wire. */
  #tookOff(): void {
    if (!this.#clock.standStill || this.#inFlight) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#inFlight = { done: resolve };
    this.#clock.standStill(promise);
  }

  #landed(): void {
    this.#inFlight?.done();
    this.#inFlight = undefined;
  }
}

function frame(seq: number, ack: number, items: string): string {
  return items === "" ? `{"seq":${seq},"ack":${ack}}` : `{"seq":${seq},"ack":${ack},"items":[${items}]}`;
}

/** Whether it can be taken for one; what its items say is another matter. */
export function isFrame(value: unknown): value is Frame {
  if (typeof value !== "object" || value === null) return false;
  const { seq, ack, items } = value as Partial<Frame>;
  return (
    Number.isSafeInteger(ack) &&
    (seq === undefined || (Number.isSafeInteger(seq) && seq > 0)) &&
    (items === undefined || Array.isArray(items))
  );
}
