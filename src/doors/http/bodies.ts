import { encodeJson } from "../../core/input/json.ts";
import { type Body, JSON_TYPE } from "../../core/task/task.ts";

/** A payload is a JSON value of the request, not JSON in a text. */
export function toBody(data: unknown): string {
  return encodeJson(data ?? null, "data");
}

/** A payload of another type than JSON is returned as text, or as base64. */
export function fromBody(body: Body, contentType: string): { data: unknown; encoding?: "base64" } {
  if (typeof body !== "string") return { data: Buffer.from(body).toString("base64"), encoding: "base64" };
  return { data: contentType === JSON_TYPE ? parsed(body) : body };
}

/** A result has no content type: text is usually JSON. */
export function fromResult(body: Body | null): unknown {
  if (body === null) return null;
  return typeof body === "string" ? parsed(body) : Buffer.from(body).toString("base64");
}

/**
 * Other clients may store any text: text that is not JSON, or nested deeper than an answer can be written, is returned
 * as text. It must not break the answer that contains it.
 */
function parsed(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return text.length < SURELY_FLAT || isFlat(value, 0) ? value : text;
  } catch {
    return text;
  }
}

/** The deepest nesting of an answer: the limit of the library's codec, plus some levels around it. */
const DEEPEST = 250;
/** A shorter text is not checked: each level takes two characters, and a few thousand levels do no harm. */
const SURELY_FLAT = 4_000;

function isFlat(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return depth < DEEPEST && Object.values(value).every((part) => isFlat(part, depth + 1));
}
