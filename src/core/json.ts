import { invalid } from "./errors.ts";
import { show } from "./show.ts";
import { type Body, JSON_TYPE } from "./task.ts";

/** JSON is the library's codec. What it would silently change or drop is refused, with the place named. */
export function encodeJson(value: unknown, what: string): string {
  checkJson(value, what, 0);
  return JSON.stringify(value);
}

/** Deeper than this is a circle, or would overflow somebody's parser. */
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
    // An absent property and one that is undefined mean the same in every JSON API.
    if (part !== undefined && !isScalar(part)) checkJson(part, `${path}.${key}`, depth + 1);
  }
}

/** Most values are, and JSON carries them: no place need be put into words for those. */
function isScalar(value: unknown): boolean {
  return typeof value === "string" || typeof value === "boolean" || Number.isFinite(value);
}

/**
 * Made by `{}`, or without a prototype; of any realm, whose Object.prototype has none itself. An instance of a class comes back
 * as another thing: without its methods, or, as a Map does, without its contents.
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

/** What a door stored under another type comes as text or bytes, not as a parse error. */
export function decodeBody(body: Body, contentType: string): unknown {
  if (contentType === JSON_TYPE)
    return JSON.parse(typeof body === "string" ? body : new TextDecoder().decode(body));
  return body;
}
