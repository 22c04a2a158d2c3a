import { encodeJson } from "../../core/json.ts";
import { type Body, JSON_TYPE } from "../../core/task.ts";

/** JSON in JSON: a payload is a value of the request, not a text in it. */
export function toBody(data: unknown): string {
  return encodeJson(data ?? null, "data");
}

/** What a store holds as another type comes as text, or as base64. */
export function fromBody(body: Body, contentType: string): { data: unknown; encoding?: "base64" } {
  if (typeof body !== "string") return { data: Buffer.from(body).toString("base64"), encoding: "base64" };
  return { data: contentType === JSON_TYPE ? (JSON.parse(body) as unknown) : body };
}

/** A result has no type of its own: text is JSON, mostly. */
export function fromResult(body: Body | null): unknown {
  if (body === null) return null;
  if (typeof body !== "string") return Buffer.from(body).toString("base64");
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
}
