import { type Command, InvalidArgumentError, Option } from "commander";
import { parseDuration } from "../core/time/duration.ts";
import { invalid } from "../core/errors/errors.ts";
import { show } from "../core/errors/show.ts";
import { didYouMean } from "./nearest.ts";

/** Values of arguments and flags: each is checked before a command opens a store. */

export function wholeNumber(text: string): number {
  if (/^-?\d+$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It must be a whole number.");
}

/** A whole number in a range. */
export function numberBetween(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = wholeNumber(text);
    if (value >= least && value <= most) return value;
    throw new InvalidArgumentError(`It must be between ${least} and ${most}.`);
  };
}

/** Milliseconds. */
export function duration(text: string): number {
  try {
    return parseDuration(text, "it");
  } catch {
    throw new InvalidArgumentError("It must be a duration: a number and ms, s, m, h or d, such as 90s.");
  }
}

/** One of a few words. Commander's own choices do not suggest the nearest. */
export function oneOf<const Choice extends string>(choices: readonly Choice[]): (text: string) => Choice {
  return (text) => {
    const found = choices.find((choice) => choice === text);
    if (found !== undefined) return found;
    throw new InvalidArgumentError(`It must be one of ${choices.join(", ")}.${didYouMean(text, choices)}`);
  };
}

/** A flag that takes one of a few words. `dibs completion` offers them. */
export function choiceOption(flags: string, about: string, choices: readonly string[]): Option {
  const option = new Option(flags, about).choices([...choices]);
  const parse = oneOf(choices);
  return option.variadic
    ? option.argParser((text: string, before?: string[]) => [...(before ?? []), parse(text)])
    : option.argParser(parse);
}

/** A flag that may be repeated: name=value. */
export function nameAndValue(text: string, before: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("It must be a name and a value, such as type=invoice.");
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}

/** `what` names it in the error, such as "The payload". */
export function parseJson(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalid(`${what} is not JSON: ${show(text)}. A text needs its quotes: '"hello"'.`);
  }
}

/** The flags of commands that print a list in pages. */
export function withPages(command: Command, cursor: (text: string) => unknown = String): Command {
  return command
    .option("--limit <number>", "at most this many, up to 1000", numberBetween(1, 1_000), 50)
    .option("--after <cursor>", "the page that follows: the cursor that the last one printed", cursor);
}
