import { AmqpError } from "./errors.ts";
import { readTable, type Table } from "./table.ts";

/** The properties of a message. The bytes are kept as they came; only what the door uses is read out of them. */
export interface Properties {
  contentType?: string;
  contentEncoding?: string;
  headers?: Table;
  deliveryMode?: number;
  priority?: number;
  correlationId?: string;
  replyTo?: string;
  expiration?: string;
  messageId?: string;
  timestamp?: number;
  type?: string;
  userId?: string;
  appId?: string;
  clusterId?: string;
}

/** In the order of their flags, from the highest bit. */
const LAYOUT = [
  ["contentType", "shortstr"],
  ["contentEncoding", "shortstr"],
  ["headers", "table"],
  ["deliveryMode", "octet"],
  ["priority", "octet"],
  ["correlationId", "shortstr"],
  ["replyTo", "shortstr"],
  ["expiration", "shortstr"],
  ["messageId", "shortstr"],
  ["timestamp", "longlong"],
  ["type", "shortstr"],
  ["userId", "shortstr"],
  ["appId", "shortstr"],
  ["clusterId", "shortstr"],
] as const satisfies readonly (readonly [keyof Properties, string])[];

export type PropertyName = (typeof LAYOUT)[number][0];

/** Where each property is in the bytes, so that one can be replaced and the others stay as they are. */
type Places = Partial<Record<PropertyName, { from: number; to: number }>>;

/** @param bytes flags and values, as they follow the body's size in a content header */
export function readProperties(bytes: Buffer): Readonly<Properties> {
  // The assembler returns the same bytes for equal messages that follow each other.
  if (bytes !== last.bytes) last = { bytes, properties: scan(bytes).properties };
  return last.properties;
}

function scan(bytes: Buffer): { properties: Properties; places: Places } {
  const properties: Record<string, unknown> = {};
  const places: Places = {};
  let at = 0;
  const need = (count: number): number => {
    const from = at;
    at += count;
    if (at > bytes.length) throw new AmqpError("SYNTAX_ERROR", "a content header ends before its properties");
    return from;
  };
  const flags = bytes.readUInt16BE(need(2));
  // The lowest bit says that more flags follow; there are only fourteen properties.
  if (flags & 3) throw new AmqpError("SYNTAX_ERROR", "a content header has unknown property flags");
  for (let index = 0; index < LAYOUT.length; index++) {
    if (!(flags & (0x8000 >> index))) continue;
    const [name, type] = LAYOUT[index]!;
    const from = at;
    switch (type) {
      case "octet":
        properties[name] = bytes[need(1)];
        break;
      case "longlong": {
        const start = need(8);
        properties[name] = bytes.readUInt32BE(start) * 0x1_0000_0000 + bytes.readUInt32BE(start + 4);
        break;
      }
      case "shortstr": {
        const length = bytes[need(1)]!;
        properties[name] = bytes.toString("utf8", need(length), at);
        break;
      }
      case "table": {
        const length = bytes.readUInt32BE(need(4));
        properties[name] = readTable(bytes.subarray(need(length), at));
        break;
      }
    }
    places[name] = { from, to: at };
  }
  if (at !== bytes.length)
    throw new AmqpError("SYNTAX_ERROR", "a content header has more bytes than properties");
  return { properties, places };
}

/**
 * The same properties with some replaced by these values, as they are on the wire; null removes one. The others keep
 * their bytes.
 */
export function replaceProperties(
  bytes: Buffer,
  changes: Partial<Record<PropertyName, Buffer | null>>,
): Buffer {
  const { places } = scan(bytes);
  let flags = 0;
  const parts: Buffer[] = [];
  for (const [index, [name]] of LAYOUT.entries()) {
    const place = places[name];
    const change = changes[name];
    const value = change === undefined ? place && bytes.subarray(place.from, place.to) : change;
    if (!value) continue;
    flags |= 0x8000 >> index;
    parts.push(value);
  }
  return Buffer.concat([Buffer.from([flags >> 8, flags & 0xff]), ...parts]);
}

export const NO_PROPERTIES = Buffer.from([0, 0]);

let last: { bytes: Buffer; properties: Readonly<Properties> } = { bytes: NO_PROPERTIES, properties: {} };

export function shortstr(value: string): Buffer {
  const bytes = Buffer.from(value).subarray(0, 255);
  return Buffer.concat([Buffer.from([bytes.length]), bytes]);
}

/** Also for tables. */
export function longstr(value: Buffer): Buffer {
  const length = Buffer.allocUnsafe(4);
  length.writeUInt32BE(value.length);
  return Buffer.concat([length, value]);
}
