// Reads and writes the field values of AMQP 0-9-1 for the raw test client. A value of a table is a text with its type in
// front ("S:text", "I:-5", "t:true", "V:"), an object (a table) or a list, so that recordings show the exact types.

import type { Field } from "./methods.ts";

export type Value = string | Value[] | { [name: string]: Value };
export type Table = { [name: string]: Value };
/** The fields of a method, or the properties of a message. Numbers above 2^53 are not needed here. */
export type Fields = { [name: string]: string | number | boolean | Table };

interface NumberType {
  size: number;
  read: (from: Buffer, at: number) => number;
  write: (into: Buffer, value: number) => unknown;
}

const NUMBERS: Record<string, NumberType> = {
  b: { size: 1, read: (from, at) => from.readInt8(at), write: (into, value) => into.writeInt8(value) },
  B: { size: 1, read: (from, at) => from.readUInt8(at), write: (into, value) => into.writeUInt8(value) },
  s: { size: 2, read: (from, at) => from.readInt16BE(at), write: (into, value) => into.writeInt16BE(value) },
  u: {
    size: 2,
    read: (from, at) => from.readUInt16BE(at),
    write: (into, value) => into.writeUInt16BE(value),
  },
  I: { size: 4, read: (from, at) => from.readInt32BE(at), write: (into, value) => into.writeInt32BE(value) },
  i: {
    size: 4,
    read: (from, at) => from.readUInt32BE(at),
    write: (into, value) => into.writeUInt32BE(value),
  },
  l: {
    size: 8,
    read: (from, at) => Number(from.readBigInt64BE(at)),
    write: (into, value) => into.writeBigInt64BE(BigInt(value)),
  },
  T: {
    size: 8,
    read: (from, at) => Number(from.readBigUInt64BE(at)),
    write: (into, value) => into.writeBigUInt64BE(BigInt(value)),
  },
  f: { size: 4, read: (from, at) => from.readFloatBE(at), write: (into, value) => into.writeFloatBE(value) },
  d: {
    size: 8,
    read: (from, at) => from.readDoubleBE(at),
    write: (into, value) => into.writeDoubleBE(value),
  },
};

/** Which of the numbers above a field of a method is. */
const OF_FIELDS = { o: "B", s: "u", l: "i", L: "T" } as const;

function writeNumber(type: string, value: number): Buffer {
  const { size, write } = NUMBERS[type]!;
  const bytes = Buffer.alloc(size);
  write(bytes, value);
  return bytes;
}

export function shortString(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([writeNumber("B", bytes.length), bytes]);
}

export function longString(bytes: Buffer | string): Buffer {
  const all = Buffer.from(bytes as string);
  return Buffer.concat([writeNumber("i", all.length), all]);
}

export function writeTable(table: Table): Buffer {
  const entries = Object.entries(table).flatMap(([name, value]) => [shortString(name), writeValue(value)]);
  return longString(Buffer.concat(entries));
}

export function writeValue(value: Value): Buffer {
  if (Array.isArray(value))
    return Buffer.concat([Buffer.from("A"), longString(Buffer.concat(value.map(writeValue)))]);
  if (typeof value === "object") return Buffer.concat([Buffer.from("F"), writeTable(value)]);
  const type = value[0]!;
  return Buffer.concat([Buffer.from(type), writeTagged(type, value.slice(2))]);
}

function writeTagged(type: string, text: string): Buffer {
  if (NUMBERS[type]) return writeNumber(type, Number(text));
  if (type === "S") return longString(text);
  if (type === "x") return longString(Buffer.from(text, "hex"));
  if (type === "t") return writeNumber("B", text === "true" ? 1 : 0);
  if (type === "V") return Buffer.alloc(0);
  if (type === "D") {
    const [scale, unscaled] = text.split(",").map(Number) as [number, number];
    return Buffer.concat([writeNumber("B", scale), writeNumber("I", unscaled)]);
  }
  throw new Error(`A field value starts with its type, such as "S:text"; "${type}:${text}" does not.`);
}

/** The arguments of a method. Fields that the caller leaves out are 0, false, "" or {}. */
export function writeFields(fields: Field[], values: Fields): Buffer {
  const unknown = Object.keys(values).filter((name) => !fields.some((field) => field.name === name));
  if (unknown.length > 0) throw new Error(`There is no field ${unknown.join(", ")} here.`);
  const parts: Buffer[] = [];
  let bits: number[] = [];
  const flush = (): void => {
    if (bits.length > 0) parts.push(Buffer.from([bits.reduce((byte, bit, at) => byte | (bit << at), 0)]));
    bits = [];
  };
  for (const { name, type } of fields) {
    const value = values[name];
    if (type === "b") {
      bits.push(value === true ? 1 : 0);
      continue;
    }
    flush();
    if (type === "ss") parts.push(shortString((value as string | undefined) ?? ""));
    else if (type === "ls") parts.push(longString((value as string | undefined) ?? ""));
    else if (type === "t") parts.push(writeTable((value as Table | undefined) ?? {}));
    else parts.push(writeNumber(OF_FIELDS[type], (value as number | undefined) ?? 0));
  }
  flush();
  return Buffer.concat(parts);
}

export class Reader {
  readonly #from: Buffer;
  at = 0;

  constructor(from: Buffer) {
    this.#from = from;
  }

  get isAtEnd(): boolean {
    return this.at === this.#from.length;
  }

  bytes(size: number): Buffer {
    if (this.at + size > this.#from.length) throw new Error("The server sent a frame that is too short.");
    return this.#from.subarray(this.at, (this.at += size));
  }

  number(type: string): number {
    const { size, read } = NUMBERS[type]!;
    return read(this.bytes(size), 0);
  }

  shortString(): string {
    return this.bytes(this.number("B")).toString();
  }

  longString(): Buffer {
    return this.bytes(this.number("i"));
  }

  table(): Table {
    const inside = new Reader(this.longString());
    const table: Table = {};
    while (!inside.isAtEnd) table[inside.shortString()] = inside.value();
    return table;
  }

  value(): Value {
    const type = this.bytes(1).toString("latin1");
    if (NUMBERS[type]) return `${type}:${this.number(type)}`;
    if (type === "S") return `S:${this.longString().toString()}`;
    if (type === "x") return `x:${this.longString().toString("hex")}`;
    if (type === "t") return `t:${this.number("B") !== 0}`;
    if (type === "V") return "V:";
    if (type === "D") return `D:${this.number("B")},${this.number("I")}`;
    if (type === "F") return this.table();
    if (type === "A") {
      const inside = new Reader(this.longString());
      const list: Value[] = [];
      while (!inside.isAtEnd) list.push(inside.value());
      return list;
    }
    throw new Error(`The server sent a field value of the unknown type ${JSON.stringify(type)}.`);
  }

  fields(fields: Field[]): Fields {
    const values: Fields = {};
    let [bits, used] = [0, 8];
    for (const { name, type } of fields) {
      if (type === "b") {
        if (used === 8) [bits, used] = [this.number("B"), 0];
        values[name] = ((bits >> used++) & 1) === 1;
        continue;
      }
      used = 8;
      if (type === "ss") values[name] = this.shortString();
      else if (type === "ls") values[name] = this.longString().toString();
      else if (type === "t") values[name] = this.table();
      else values[name] = this.number(OF_FIELDS[type]);
    }
    return values;
  }
}
