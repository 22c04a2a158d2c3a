import { FRAME_END, FRAME_OVERHEAD } from "./encode.ts";
import { AmqpError, octets } from "./errors.ts";

export interface Frame {
  type: number;
  channel: number;
  payload: Buffer;
}

/**
 * Cuts the bytes of a connection into frames. Stores at most one frame that is incomplete: a larger one is refused when
 * its size is read. Payloads point into the chunks that the socket delivered, so nothing is copied in the usual case.
 */
export class FrameReader {
  /** Most bytes of a frame, its overhead included. */
  frameMax: number;
  /** The bytes from `#at` on are not read yet. */
  #bytes: Buffer = EMPTY;
  #at = 0;
  /** How many bytes the next frame needs; nothing is read before they are there. */
  #needed = 0;
  #parts: Buffer[] = [];
  #size = 0;

  constructor(frameMax: number) {
    this.frameMax = frameMax;
  }

  add(chunk: Buffer): void {
    this.#parts.push(chunk);
    this.#size += chunk.length;
  }

  /** The next whole frame; undefined if more bytes are needed. */
  next(): Frame | undefined {
    if (this.#size > 0 && this.#left + this.#size >= this.#needed) this.#join();
    const bytes = this.#bytes;
    const at = this.#at;
    if (this.#left < 7) return this.#wait(7);
    const size = bytes.readUInt32BE(at + 3);
    if (size + FRAME_OVERHEAD > this.frameMax) {
      throw new AmqpError(
        "FRAME_ERROR",
        `type ${bytes[at]}, all octets = <<>>: {frame_too_large,${size},${this.frameMax - FRAME_OVERHEAD}}`,
      );
    }
    if (this.#left < size + FRAME_OVERHEAD) return this.#wait(size + FRAME_OVERHEAD);
    const end = at + 7 + size;
    const payload = bytes.subarray(at + 7, end);
    if (bytes[end] !== FRAME_END) {
      throw new AmqpError(
        "FRAME_ERROR",
        `type ${bytes[at]}, all octets = ${octets(payload)}: {invalid_frame_end_marker,${bytes[end]}}`,
      );
    }
    this.#at = end + 1;
    this.#needed = 0;
    return { type: bytes[at]!, channel: (bytes[at + 1]! << 8) | bytes[at + 2]!, payload };
  }

  get #left(): number {
    return this.#bytes.length - this.#at;
  }

  #wait(needed: number): undefined {
    this.#needed = needed;
    if (this.#left > 0) return;
    // A connection that is idle does not keep the last bytes that it received.
    this.#bytes = EMPTY;
    this.#at = 0;
  }

  #join(): void {
    this.#bytes =
      this.#left === 0 && this.#parts.length === 1
        ? this.#parts[0]!
        : Buffer.concat([this.#bytes.subarray(this.#at), ...this.#parts]);
    this.#at = 0;
    this.#parts = [];
    this.#size = 0;
  }
}

const EMPTY = Buffer.alloc(0);
