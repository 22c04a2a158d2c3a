import { invalid } from "../errors/errors.ts";
import { show } from "../errors/show.ts";
import { type Body, JSON_TYPE } from "../task/task.ts";

/** JSON is the library's codec. Refuses values that JSON would silently change or drop, and names where they are. */
export function encodeJson(value: unknown, what: string): string {
  checkJson(value, what, 0);
  return JSON.stringify(value);
}

/** The deepest value that is accepted: a deeper one probably contains itself, or would overflow a parser. */
const DEEPEST = 200;

function checkJson(value: unknown, path: string, depth: number): void {
  switch (typeof value) {
    case "string":
    case "boolean":
      return;
    case "number":
      if (Number.isFinite(value)) return;
      break;
    case "object":
      return value === null ? undefined : checkObject(value, path, depth);
    default:
  }
  throw cannotCarry(value, path);
}

function checkObject(value: object, path: string, depth: number): void {
  if (depth >= DEEPEST) {
    throw invalid(
      `JSON cannot carry ${clip(path)}: it is nested more than ${DEEPEST} deep, or contains itself.`,
    );
  }
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++)
      if (!isScalar(value[index])) checkJson(value[index], `${path}[${index}]`, depth + 1);
    return;
  }
  if ("toJSON" in value && typeof value.toJSON === "function") {
    if (value instanceof Date && Number.isNaN(value.getTime())) throw cannotCarry(value, path);
    if (!ArrayBuffer.isView(value)) return checkJson(value.toJSON(""), path, depth + 1);
  }
  if (!isPlain(value)) throw cannotCarry(value, path);
  for (const key in value) {
    const part = (value as Record<string, unknown>)[key];
    // An absent property and an undefined one mean the same in every JSON API.
    if (part !== undefined && !isScalar(part)) checkJson(part, `${path}.${key}`, depth + 1);
  }
}

/** Most values are scalars. Checking them here avoids building their path. */
function isScalar(value: unknown): boolean {
  return typeof value === "string" || typeof value === "boolean" || Number.isFinite(value);
}

/**
 * Created by `{}`, or without a prototype. Works for objects of other realms too, because every Object.prototype has a
 * null prototype. An instance of a class would not come back as the same thing: it would lose its methods or, as a Map
 * does, its contents.
 */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function cannotCarry(value: unknown, path: string) {
  return invalid(
    `JSON cannot carry ${clip(path)}: ${show(value)}. Use texts, finite numbers, booleans, null, arrays and plain objects, or give a class toJSON().`,
  );
}

function clip(path: string): string {
  return path.length > 120 ? `${path.slice(0, 117)}…` : path;
}

/** A payload that a door stored under another content type is returned as text or bytes, without parsing. */
export function decodeBody(body: Body, contentType: string): unknown {
  if (contentType === JSON_TYPE)
    return JSON.parse(typeof body === "string" ? body : new TextDecoder().decode(body));
  return body;
}
