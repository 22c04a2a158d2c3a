// Frames of AMQP 0-9-1 for the raw test client: writes methods and content, and cuts what arrives into frames.

import { methodNamed, PROPERTIES } from "./methods.ts";
import { type Fields, Reader, writeFields } from "./values.ts";

export const PROTOCOL_HEADER = Buffer.from([0x41, 0x4d, 0x51, 0x50, 0, 0, 9, 1]);
export const METHOD = 1;
export const HEADER = 2;
export const BODY = 3;
export const HEARTBEAT = 8;
export const FRAME_END = 0xce;
/** Bytes of a frame that are not its payload. */
export const FRAME_EXTRA = 8;

export interface Frame {
  type: number;
  channel: number;
  payload: Buffer;
}

export function writeFrame(type: number, channel: number, payload: Buffer, end = FRAME_END): Buffer {
  const head = Buffer.alloc(7);
  head.writeUInt8(type);
  head.writeUInt16BE(channel, 1);
  head.writeUInt32BE(payload.length, 3);
  return Buffer.concat([head, payload, Buffer.from([end])]);
}

export function writeMethod(channel: number, name: string, values: Fields = {}): Buffer {
  const { classId, methodId, fields } = methodNamed(name);
  const ids = Buffer.alloc(4);
  ids.writeUInt16BE(classId);
  ids.writeUInt16BE(methodId, 2);
  return writeFrame(METHOD, channel, Buffer.concat([ids, writeFields(fields, values)]));
}

export function writeContentHeader(channel: number, properties: Fields, size: number, classId = 60): Buffer {
  const given = PROPERTIES.filter(({ name }) => properties[name] !== undefined);
  const head = Buffer.alloc(14);
  head.writeUInt16BE(classId);
  head.writeBigUInt64BE(BigInt(size), 4);
  head.writeUInt16BE(
    given.reduce((flags, field) => flags | (1 << (15 - PROPERTIES.indexOf(field))), 0),
    12,
  );
  return writeFrame(HEADER, channel, Buffer.concat([head, writeFields(given, properties)]));
}

export function readContentHeader(payload: Buffer): { properties: Fields; size: number } {
  const size = Number(payload.readBigUInt64BE(4));
  const flags = payload.readUInt16BE(12);
  const given = PROPERTIES.filter((_, at) => (flags & (1 << (15 - at))) !== 0);
  return { properties: new Reader(payload.subarray(14)).fields(given), size };
}

export function writeContent(channel: number, properties: Fields, body: Buffer, frameMax: number): Buffer {
  const parts = [writeContentHeader(channel, properties, body.length)];
  const most = frameMax - FRAME_EXTRA;
  for (let at = 0; at < body.length; at += most)
    parts.push(writeFrame(BODY, channel, body.subarray(at, at + most)));
  return Buffer.concat(parts);
}

/** Collects bytes, and returns the frames that are complete. */
export class FrameCutter {
  #rest: Buffer = Buffer.alloc(0);

  /** What arrived after the last complete frame. */
  get rest(): Buffer {
    return this.#rest;
  }

  push(bytes: Buffer): Frame[] {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    const frames: Frame[] = [];
    for (;;) {
      // A server that does not like the protocol header answers with one.
      if (this.#rest.length < 7 || this.#rest.subarray(0, 4).toString("latin1") === "AMQP") return frames;
      const size = this.#rest.readUInt32BE(3);
      if (this.#rest.length < size + FRAME_EXTRA) return frames;
      if (this.#rest[size + 7] !== FRAME_END)
        throw new Error("The server sent a frame without its end mark.");
      frames.push({
        type: this.#rest[0]!,
        channel: this.#rest.readUInt16BE(1),
        payload: this.#rest.subarray(7, size + 7),
      });
      this.#rest = this.#rest.subarray(size + FRAME_EXTRA);
    }
  }
}
