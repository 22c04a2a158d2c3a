import { invalid } from "../errors/errors.ts";
import { show } from "../errors/show.ts";

/** Refuses unknown names: a misspelt option that is ignored does more harm than an error. */
export function checkNames(options: object, known: readonly string[], what: string): void {
  checkObject(options, `The ${what} options`);
  for (const name of Object.keys(options)) {
    if (!known.includes(name)) {
      throw invalid(`Unknown ${what} option ${show(name)}. Known: ${known.join(", ")}.`);
    }
  }
}

export function checkObject(value: unknown, what: string): asserts value is object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalid(`${what} must be an object; got ${show(value)}.`);
  }
}

/** A whole number within bounds. `advice` is added to the error: what the caller may have meant. */
export function checkNumber(
  value: unknown,
  what: string,
  least: number,
  most: number,
  advice?: string,
): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < least || value > most) {
    const bounds = `${what} must be a whole number from ${least} to ${most}; got ${show(value)}.`;
    throw invalid(advice === undefined ? bounds : `${bounds} ${advice}`);
  }
  return value;
}

export function checkBoolean(value: unknown, what: string): boolean {
  if (typeof value !== "boolean") throw invalid(`${what} must be true or false; got ${show(value)}.`);
  return value;
}

/** A text of 1 to `most` characters without control characters. */
export function checkText(value: unknown, what: string, most: number): string {
  if (typeof value !== "string" || value.length === 0 || value.length > most || !isPlainText(value)) {
    throw invalid(
      `${what} must be a text of 1 to ${most} characters without control characters; got ${show(value)}.`,
    );
  }
  return value;
}

/**
 * Has no control characters, and no half of a surrogate pair: that has no UTF-8 encoding, so two different keys would
 * become equal on disk.
 */
export function isPlainText(text: string): boolean {
  return !CONTROL.test(text) && text.isWellFormed();
}

// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
