import { encodeJson } from "../../core/json.ts";
import { type Body, JSON_TYPE } from "../../core/task.ts";

/** JSON in JSON: a payload is a value of the request, not a text in it. */
export function toBody(data: unknown): string {
  return encodeJson(data ?? null, "data");
}

/** What a store holds as another type comes as text, or as base64. */
export function fromBody(body: Body, contentType: string): { data: unknown; encoding?: "base64" } {
  if (typeof body !== "string") return { data: Buffer.from(body).toString("base64"), encoding: "base64" };
  return { data: contentType === JSON_TYPE ? parsed(body) : body };
}

/** A result has no type of its own: text is JSON, mostly. */
export function fromResult(body: Body | null): unknown {
  if (body === null) return null;
  return typeof body === "string" ? parsed(body) : Buffer.from(body).toString("base64");
}

/**
 * Other clients bring texts: what is no JSON, or deeper than any answer can be written, comes as the text it is. It must not
 * fail the answer that holds it among others.
 */
function parsed(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return text.length < SURELY_FLAT || isFlat(value, 0) ? value : text;
  } catch {
    return text;
  }
}

/** Of the library's codec, and more than that for what is around it. */
const DEEPEST = 250;
/** Each level takes two characters, and some thousands of levels are no trouble. */
const SURELY_FLAT = 4_000;

function isFlat(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return depth < DEEPEST && Object.values(value).every((part) => isFlat(part, depth + 1));
}
