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
    const { classId, methodId, fields } = PLANS[name];
    const start = this.#begin(FRAME.method, channel);
    this.#room(4);
    this.#short(classId);
    this.#short(methodId);
    const values = args as Record<string, number | boolean | string | Buffer | undefined>;
    // Bits that follow each other share a byte. No method has more than eight of them.
    let bits = 0;
    let bit = 0;
    for (let index = 0; index < fields.length; index++) {
      const [field, type] = fields[index]!;
      const value = values[field];
      // Room for the bits before it, and for a number.
      this.#room(9);
      if (type === "bit") {
        if (value === true) bits |= 1 << bit;
        bit++;
        continue;
      }
      if (bit > 0) this.#bytes[this.#at++] = bits;
      bits = bit = 0;
      switch (type) {
        case "octet":
          this.#bytes[this.#at++] = (value as number | undefined) ?? 0;
          break;
        case "short":
          this.#short((value as number | undefined) ?? 0);
          break;
        case "long":
          this.#long((value as number | undefined) ?? 0);
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
    if (bit > 0) this.#bytes[this.#at++] = bits;
    this.#end(start);
  }

  /** @param properties flags and values, as they are on the wire */
  content(channel: number, properties: Uint8Array, body: Uint8Array, frameMax: number): void {
    const start = this.#begin(FRAME.header, channel);
    this.#room(12 + properties.length);
    this.#long(BASIC);
    this.#longlong(body.length);
    this.#bytes.set(properties, this.#at);
    this.#at += properties.length;
    this.#end(start);
    const most = frameMax - FRAME_OVERHEAD;
    for (let from = 0; from < body.length; from += most) {
      const begin = this.#begin(FRAME.body, channel);
      this.raw(body.length <= most ? body : body.subarray(from, from + most));
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
    this.#short(channel);
    this.#at += 4;
    return this.#at;
  }

  #end(start: number): void {
    this.#bytes.writeUInt32BE(this.#at - start, start - 4);
    this.#room(1);
    this.#bytes[this.#at++] = FRAME_END;
  }

  // The callers of these three have made room.

  #short(value: number): void {
    this.#bytes[this.#at++] = value >> 8;
    this.#bytes[this.#at++] = value;
  }

  #long(value: number): void {
    this.#short(value >>> 16);
    this.#short(value & 0xffff);
  }

  #longlong(value: number): void {
    this.#long(Math.floor(value / 0x1_0000_0000));
    this.#long(value % 0x1_0000_0000);
  }

  #shortstr(value: string): void {
    this.#room(1 + value.length * 3);
    const length = this.#ascii(value) ? value.length : this.#bytes.write(value, this.#at + 1, 255, "utf8");
    this.#bytes[this.#at] = length;
    this.#at += 1 + length;
  }

  /** A call into native code takes longer than a name of usual length. Returns whether it was written. */
  #ascii(value: string): boolean {
    if (value.length > 48) return false;
    let at = this.#at + 1;
    for (let index = 0; index < value.length; index++) {
      const code = value.charCodeAt(index);
      if (code > 127) return false;
      this.#bytes[at++] = code;
    }
    return true;
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
