import { AmqpError } from "./errors.ts";

/**
 * Field tables: values with their type on the wire, so that what a client sent is written back byte for byte. Reading
 * uses a stack of its own instead of recursion, and refuses tables that are nested more than 32 deep.
 */
export const DEEPEST_TABLE = 32;

export type Field =
  | { type: "t"; value: boolean }
  | { type: "b" | "B" | "s" | "u" | "I" | "i" | "f" | "d"; value: number }
  | { type: "l" | "L" | "T"; value: bigint }
  | { type: "S" | "x"; value: Buffer }
  /** Kept as its five bytes: a scale and a number. */
  | { type: "D"; value: Buffer }
  | { type: "F"; value: Table }
  | { type: "A"; value: Field[] }
  | { type: "V" };

/** In the order on the wire. A name can be there twice. */
export type Table = [name: string, field: Field][];

interface Level {
  end: number;
  into: Table | Field[];
  isTable: boolean;
}

/** @param bytes a table without its length */
export function readTable(bytes: Buffer): Table {
  const root: Table = [];
  const stack: Level[] = [{ end: bytes.length, into: root, isTable: true }];
  let at = 0;
  const need = (count: number): number => {
    const from = at;
    at += count;
    if (at > stack.at(-1)!.end) throw truncated();
    return from;
  };
  while (stack.length > 0) {
    const level = stack.at(-1)!;
    if (at === level.end) {
      stack.pop();
      continue;
    }
    let name = "";
    if (level.isTable) {
      const length = bytes[need(1)]!;
      name = bytes.toString("utf8", need(length), at);
    }
    const type = String.fromCharCode(bytes[need(1)]!);
    const put = (field: Field): void => {
      if (level.isTable) (level.into as Table).push([name, field]);
      else (level.into as Field[]).push(field);
    };
    if (type === "F" || type === "A") {
      const length = bytes.readUInt32BE(need(4));
      const end = at + length;
      if (end > level.end) throw truncated();
      if (stack.length >= DEEPEST_TABLE)
        throw new AmqpError("SYNTAX_ERROR", `a table is nested more than ${DEEPEST_TABLE} deep`);
      if (type === "F") {
        const value: Table = [];
        put({ type, value });
        stack.push({ end, into: value, isTable: true });
      } else {
        const value: Field[] = [];
        put({ type, value });
        stack.push({ end, into: value, isTable: false });
      }
      continue;
    }
    put(readScalar(bytes, type, need));
  }
  return root;
}

function readScalar(bytes: Buffer, type: string, need: (count: number) => number): Field {
  switch (type) {
    case "t":
      return { type, value: bytes[need(1)] !== 0 };
    case "b":
      return { type, value: bytes.readInt8(need(1)) };
    case "B":
      return { type, value: bytes[need(1)]! };
    case "s":
      return { type, value: bytes.readInt16BE(need(2)) };
    case "u":
      return { type, value: bytes.readUInt16BE(need(2)) };
    case "I":
      return { type, value: bytes.readInt32BE(need(4)) };
    case "i":
      return { type, value: bytes.readUInt32BE(need(4)) };
    case "f":
      return { type, value: bytes.readFloatBE(need(4)) };
    case "d":
      return { type, value: bytes.readDoubleBE(need(8)) };
    case "l":
    case "L":
    case "T":
      return { type, value: bytes.readBigInt64BE(need(8)) };
    case "S":
    case "x": {
      const length = bytes.readUInt32BE(need(4));
      const from = need(length);
      return { type, value: bytes.subarray(from, from + length) };
    }
    case "D": {
      const from = need(5);
      return { type, value: bytes.subarray(from, from + 5) };
    }
    case "V":
      return { type };
    default:
      throw new AmqpError("SYNTAX_ERROR", `unknown field type ${JSON.stringify(type)}`);
  }
}

function truncated(): AmqpError {
  return new AmqpError("SYNTAX_ERROR", "a table ends before its values");
}

/**
 * Without its length. The tables written here were read before, so they are at most 32 deep, or were built by the door.
 */
export function writeTable(table: Table): Buffer {
  const parts: Buffer[] = [];
  for (const [name, field] of table) {
    const text = Buffer.from(name);
    parts.push(Buffer.from([text.length]), text);
    writeField(parts, field);
  }
  return Buffer.concat(parts);
}

function writeField(parts: Buffer[], field: Field): void {
  parts.push(Buffer.from(field.type, "latin1"));
  switch (field.type) {
    case "t":
      return void parts.push(Buffer.from([field.value ? 1 : 0]));
    case "V":
      return;
    case "S":
    case "x":
      return void parts.push(length(field.value.length), field.value);
    case "D":
      return void parts.push(field.value);
    case "F": {
      const inner = writeTable(field.value);
      return void parts.push(length(inner.length), inner);
    }
    case "A": {
      const inner: Buffer[] = [];
      for (const each of field.value) writeField(inner, each);
      const bytes = Buffer.concat(inner);
      return void parts.push(length(bytes.length), bytes);
    }
    default:
      return void parts.push(writeNumber(field));
  }
}

type Numeric = Extract<Field, { value: number }> | Extract<Field, { value: bigint }>;

function writeNumber({ type, value }: Numeric): Buffer {
  const bytes = Buffer.alloc(8);
  switch (type) {
    case "b":
      return bytes.subarray(0, bytes.writeInt8(value));
    case "B":
      return bytes.subarray(0, bytes.writeUInt8(value));
    case "s":
      return bytes.subarray(0, bytes.writeInt16BE(value));
    case "u":
      return bytes.subarray(0, bytes.writeUInt16BE(value));
    case "I":
      return bytes.subarray(0, bytes.writeInt32BE(value));
    case "i":
      return bytes.subarray(0, bytes.writeUInt32BE(value));
    case "f":
      return bytes.subarray(0, bytes.writeFloatBE(value));
    case "d":
      return bytes.subarray(0, bytes.writeDoubleBE(value));
    default:
      return bytes.subarray(0, bytes.writeBigInt64BE(value));
  }
}

function length(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** The first field of that name. */
export function fieldOf(table: Table, name: string): Field | undefined {
  for (let index = 0; index < table.length; index++) if (table[index]![0] === name) return table[index]![1];
  return undefined;
}

/** The number in a field; undefined for other types. */
export function numberOf(field: Field | undefined): number | undefined {
  if (field === undefined || !("value" in field)) return undefined;
  if (typeof field.value === "number") return field.value;
  return typeof field.value === "bigint" ? Number(field.value) : undefined;
}

export function textOf(field: Field | undefined): string | undefined {
  return field?.type === "S" ? field.value.toString() : undefined;
}

export const text = (value: string): Field => ({ type: "S", value: Buffer.from(value) });
export const long = (value: number): Field => ({ type: "l", value: BigInt(value) });
export const yes: Field = { type: "t", value: true };

/** A table with its length, as a property or a field. */
export function longstrTable(table: Table): Buffer {
  const bytes = writeTable(table);
  return Buffer.concat([length(bytes.length), bytes]);
}

/** One text per value, for comparisons: numbers of different widths are equal if their values are. */
export function canonical(field: Field): string {
  switch (field.type) {
    case "V":
      return "V";
    case "t":
      return `t${field.value}`;
    case "S":
    case "x":
    case "D":
      return `${field.type}${field.value.toString("latin1")}`;
    case "F":
    case "A":
      return `${field.type}${(field.type === "F" ? writeTable(field.value) : writeTable([["", field]])).toString("latin1")}`;
    case "T":
      return `T${field.value}`;
    default:
      return `n${Number(field.value)}`;
  }
}

const TYPE_NAMES: Record<Field["type"], string> = {
  ...{ t: "bool", b: "byte", B: "unsignedbyte", s: "short", u: "unsignedshort", I: "signedint" },
  ...{ i: "unsignedint", l: "long", L: "long", f: "float", d: "double", D: "decimal", S: "longstr" },
  ...{ x: "binary", A: "array", T: "timestamp", F: "table", V: "void" },
};

/** As RabbitMQ names types in its errors. */
export function typeName({ type }: Field): string {
  return TYPE_NAMES[type];
}

/** A value as RabbitMQ prints it in its errors. */
export function shownValue(field: Field): string {
  if (field.type === "F" || field.type === "A" || field.type === "V") return typeName(field);
  return Buffer.isBuffer(field.value) ? field.value.toString() : String(field.value);
}
