/**
 * A value as an error message shows it: short, on one line, and never a whole payload, which may be secret. It never
 * throws, although the value may come from a client and have hostile getters.
 */
export function show(value: unknown): string {
  try {
    return describe(value);
  } catch {
    return "an object that cannot be read";
  }
}

function describe(value: unknown): string {
  switch (typeof value) {
    case "string":
      return quote(value);
    case "bigint":
      return `${clip(String(value))}n`;
    case "function":
      return "a function";
    case "symbol":
      return "a symbol";
    case "object":
      return value === null ? "null" : describeObject(value);
    default:
      return String(value);
  }
}

function describeObject(value: object): string {
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (value instanceof Date) {
    const time = Date.prototype.getTime.call(value);
    return Number.isNaN(time) ? "an invalid Date" : new Date(time).toISOString();
  }
  // Take the class from the prototype: the value's own `constructor` property may be anything.
  const { constructor } = (Object.getPrototypeOf(value) ?? {}) as { constructor?: unknown };
  const name = typeof constructor === "function" ? (constructor as { name: unknown }).name : undefined;
  if (typeof name !== "string" || name === "" || name === "Object") return "an object";
  return `an instance of ${escapeControls(clip(name))}`;
}

const LONGEST = 60;

function quote(text: string): string {
  return escapeControls(JSON.stringify(clip(text)));
}

function clip(text: string): string {
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 3)}…` : text;
}

/**
 * Characters that a terminal executes instead of showing them: C0, DEL and C1 controls, line separators, and characters
 * that change the writing direction. JSON escapes only the first kind.
 */
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** Writes every control character as \uXXXX, so that a terminal or a log shows it and does not execute it. */
export function escapeControls(text: string): string {
  return text.replaceAll(CONTROLS, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
