import { invalid } from "../core/errors/errors.ts";
import { show } from "../core/errors/show.ts";

/**
 * The wire carries JSON. Client and server encode what JSON cannot express as an object with the single key `$`:
 *
 *   {"$": ["bytes", "3q2+7w=="]}      a Uint8Array, in base64
 *   {"$": ["number", "NaN"]}          NaN, Infinity, -Infinity: the server refuses them with the same error as in
 * process
 *   {"$": ["undefined"]}              in a list; as a property it is omitted
 *   {"$": ["object", {"$": 1}]}       a caller's object that itself has a key `$`
 *
 * Most values contain none of these, and are then not copied, in either direction.
 */
const TAG = "$";

/** Deeper than anything a port accepts or returns. A deeper frame would overflow the stack. */
const DEEPEST = 100;

export function encode(value: unknown): string {
  return JSON.stringify(isPlain(value, 0) ? value : pack(value));
}

export function decode(text: string): unknown {
  const value: unknown = JSON.parse(text);
  // Only a key can end in $": because a quote within a text is escaped. Searching from the rare $ is fast; quotes are
  // everywhere.
  return text.includes('$":') ? unpack(value, 0) : value;
}

function isPlain(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case "string":
    case "boolean":
      return true;
    case "number":
      return Number.isFinite(value);
    case "object":
      break;
    default:
      return false;
  }
  if (value === null) return true;
  if (depth > DEEPEST) throw invalid(`A value nested more than ${DEEPEST} deep cannot be sent to a server.`);
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) if (!isPlain(value[index], depth + 1)) return false;
    return true;
  }
  if (value instanceof Uint8Array || TAG in value) return false;
  for (const key in value) {
    const part = (value as Record<string, unknown>)[key];
    // Most values are texts: a call for each would cost more than this check.
    if (typeof part !== "string" && part !== undefined && !isPlain(part, depth + 1)) return false;
  }
  return true;
}

function pack(value: unknown): unknown {
  switch (typeof value) {
    case "number":
      return Number.isFinite(value) ? value : { [TAG]: ["number", String(value)] };
    case "undefined":
      return { [TAG]: ["undefined"] };
    case "bigint":
    case "function":
    case "symbol":
      throw invalid(
        `${show(value)} cannot be sent to a server. Use texts, numbers, bytes and plain objects.`,
      );
    default:
  }
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(pack);
  if (value instanceof Uint8Array) return { [TAG]: ["bytes", toBase64(value)] };
  const parts: [string, unknown][] = [];
  for (const [key, part] of Object.entries(value)) if (part !== undefined) parts.push([key, pack(part)]);
  const packed = Object.fromEntries(parts);
  return TAG in value ? { [TAG]: ["object", packed] } : packed;
}

function unpack(value: unknown, depth: number): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (depth > DEEPEST) throw invalid(`A frame is nested at most ${DEEPEST} deep.`);
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) value[index] = unpack(value[index], depth + 1);
    return value;
  }
  if (TAG in value) return untag(value[TAG], depth);
  return unpackParts(value as Record<string, unknown>, depth);
}

function unpackParts(value: Record<string, unknown>, depth: number): object {
  // JSON.parse makes "__proto__" an own property, so this assignment does not change the prototype.
  for (const key of Object.keys(value)) value[key] = unpack(value[key], depth + 1);
  return value;
}

function untag(tagged: unknown, depth: number): unknown {
  const [kind, content] = Array.isArray(tagged) ? (tagged as unknown[]) : [];
  if (kind === "undefined") return undefined;
  if (kind === "bytes" && typeof content === "string") return fromBase64(content);
  if (kind === "number" && typeof content === "string") return Number(content);
  if (kind === "object" && typeof content === "object" && content !== null) {
    return unpackParts(content as Record<string, unknown>, depth);
  }
  throw invalid(
    `{"$": …} stands for ["bytes", text], ["number", text], ["undefined"] or ["object", object].`,
  );
}

function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}

/** A copy with its own memory, as every store returns it. */
function fromBase64(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, "base64"));
}
