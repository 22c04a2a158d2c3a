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
  #rest: Buffer = EMPTY;
  /** How many bytes the frame in `#rest` needs; nothing is read before they are there. */
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
    if (this.#size > 0 && this.#rest.length + this.#size >= this.#needed) this.#join();
    const bytes = this.#rest;
    if (bytes.length < 7) return this.#wait(7);
    const size = bytes.readUInt32BE(3);
    if (size + FRAME_OVERHEAD > this.frameMax) {
      throw new AmqpError(
        "FRAME_ERROR",
        `type ${bytes[0]}, all octets = <<>>: {frame_too_large,${size},${this.frameMax - FRAME_OVERHEAD}}`,
      );
    }
    if (bytes.length < size + FRAME_OVERHEAD) return this.#wait(size + FRAME_OVERHEAD);
    if (bytes[7 + size] !== FRAME_END) {
      throw new AmqpError(
        "FRAME_ERROR",
        `type ${bytes[0]}, all octets = ${octets(bytes.subarray(7, 7 + size))}: ` +
          `{invalid_frame_end_marker,${bytes[7 + size]}}`,
      );
    }
    this.#rest = bytes.subarray(size + FRAME_OVERHEAD);
    this.#needed = 0;
    return { type: bytes[0]!, channel: bytes.readUInt16BE(1), payload: bytes.subarray(7, 7 + size) };
  }

  #wait(needed: number): undefined {
    this.#needed = needed;
  }

  #join(): void {
    this.#rest =
      this.#rest.length === 0 && this.#parts.length === 1
        ? this.#parts[0]!
        : Buffer.concat([this.#rest, ...this.#parts]);
    this.#parts = [];
    this.#size = 0;
  }
}

const EMPTY = Buffer.alloc(0);
