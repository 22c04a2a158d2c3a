import { type Args, type MethodName, PLANS } from "./methods.ts";

/** Writes frames. Every function returns a whole frame, or several, ready for the socket. */

export const FRAME = { method: 1, header: 2, body: 3, heartbeat: 8 } as const;
export const FRAME_END = 0xce;
/** Bytes of a frame besides its payload: type, channel, size, end. */
export const FRAME_OVERHEAD = 8;
export const HEARTBEAT = Buffer.from([FRAME.heartbeat, 0, 0, 0, 0, 0, 0, FRAME_END]);

/** A buffer that grows; frames are written one after the other, and taken together. */
export class FrameWriter {
  #bytes = Buffer.allocUnsafe(4_096);
  #at = 0;

  get length(): number {
    return this.#at;
  }

  /** What was written since the last call. */
  take(): Buffer {
    const taken = this.#bytes.subarray(0, this.#at);
    // The socket may still hold the bytes that were taken.
    this.#bytes = Buffer.allocUnsafe(Math.min(Math.max(4_096, this.#at), 64 * 1024));
    this.#at = 0;
    return taken;
  }

  method<Name extends MethodName>(channel: number, name: Name, args: Args<Name>): void {
    const plan = PLANS[name];
    const start = this.#begin(FRAME.method, channel);
    this.#room(4);
    this.#at = this.#bytes.writeUInt16BE(plan.classId, this.#at);
    this.#at = this.#bytes.writeUInt16BE(plan.methodId, this.#at);
    const values = args as Record<string, number | boolean | string | Buffer | undefined>;
    let bits = 0;
    let bit = 0;
    const flushBits = (): void => {
      if (bit === 0) return;
      this.#room(1);
      this.#bytes[this.#at++] = bits;
      bits = 0;
      bit = 0;
    };
    for (let index = 0; index < plan.fields.length; index++) {
      const [field, type] = plan.fields[index]!;
      const value = values[field];
      if (type === "bit") {
        if (value === true) bits |= 1 << bit;
        if (++bit === 8) flushBits();
        continue;
      }
      flushBits();
      switch (type) {
        case "octet":
          this.#room(1);
          this.#bytes[this.#at++] = (value as number | undefined) ?? 0;
          break;
        case "short":
          this.#room(2);
          this.#at = this.#bytes.writeUInt16BE((value as number | undefined) ?? 0, this.#at);
          break;
        case "long":
          this.#room(4);
          this.#at = this.#bytes.writeUInt32BE((value as number | undefined) ?? 0, this.#at);
          break;
        case "longlong":
          this.#longlong((value as number | undefined) ?? 0);
          break;
        case "shortstr":
          this.#shortstr((value as string | undefined) ?? "");
          break;
        case "longstr":
        case "table":
          this.#longstr((value as Buffer | undefined) ?? EMPTY);
          break;
      }
    }
    flushBits();
    this.#end(start);
  }

  /** @param properties flags and values, as they are on the wire */
  content(channel: number, properties: Uint8Array, body: Uint8Array, frameMax: number): void {
    const start = this.#begin(FRAME.header, channel);
    this.#room(12 + properties.length);
    this.#at = this.#bytes.writeUInt32BE(BASIC, this.#at);
    this.#longlong(body.length);
    this.#bytes.set(properties, this.#at);
    this.#at += properties.length;
    this.#end(start);
    const most = frameMax - FRAME_OVERHEAD;
    for (let from = 0; from < body.length; from += most) {
      const part = body.subarray(from, from + most);
      const begin = this.#begin(FRAME.body, channel);
      this.#room(part.length);
      this.#bytes.set(part, this.#at);
      this.#at += part.length;
      this.#end(begin);
    }
  }

  raw(bytes: Uint8Array): void {
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  #begin(type: number, channel: number): number {
    this.#room(7);
    this.#bytes[this.#at++] = type;
    this.#at = this.#bytes.writeUInt16BE(channel, this.#at);
    this.#at += 4;
    return this.#at;
  }

  #end(start: number): void {
    this.#bytes.writeUInt32BE(this.#at - start, start - 4);
    this.#room(1);
    this.#bytes[this.#at++] = FRAME_END;
  }

  #longlong(value: number): void {
    this.#room(8);
    this.#at = this.#bytes.writeUInt32BE(Math.floor(value / 0x1_0000_0000), this.#at);
    this.#at = this.#bytes.writeUInt32BE(value % 0x1_0000_0000, this.#at);
  }

  #shortstr(value: string): void {
    this.#room(1 + value.length * 3);
    const length = this.#bytes.write(value, this.#at + 1, 255, "utf8");
    this.#bytes[this.#at] = length;
    this.#at += 1 + length;
  }

  #longstr(value: Buffer): void {
    this.#room(4 + value.length);
    this.#at = this.#bytes.writeUInt32BE(value.length, this.#at);
    this.#bytes.set(value, this.#at);
    this.#at += value.length;
  }

  #room(count: number): void {
    if (this.#at + count <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#at + count));
    larger.set(this.#bytes.subarray(0, this.#at));
    this.#bytes = larger;
  }
}

/** Class 60 and weight 0, as the first four bytes of a content header. */
const BASIC = 60 << 16;
const EMPTY = Buffer.alloc(0);
