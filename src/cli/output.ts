import { escapeControls } from "../core/errors/show.ts";

/**
 * How commands write: data to standard output, messages to standard error. Text from payloads, names and errors may
 * come from a hostile client or server: the terminal must show its control characters, not execute them.
 */

/** A line of data. */
export function print(line: string): void {
  process.stdout.write(`${escapeControls(line)}\n`);
}

/** One value for programs, on one line. An escaped control character is the same JSON. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value));
}

/** A message for people. */
export function say(line: string): void {
  process.stderr.write(`${escapeControls(line)}\n`);
}

let isReaderGone = false;

/** The reader of the output may stop early, as `head` does. That is no failure. */
export function ignoreBrokenPipe(): void {
  process.stdout.on("error", () => (isReaderGone = true));
  process.stderr.on("error", () => {});
}

/** Thrown when the reader of a command's output is gone. It ends a command that only prints, without a message. */
export class ReaderGone extends Error {}

/** As print(), for long output: waits for the reader, so that no more than one piece is in memory. */
export async function write(text: string): Promise<void> {
  await new Promise<void>((resolve) => void process.stdout.write(text, () => resolve()));
  if (isReaderGone) throw new ReaderGone("The reader of the output is gone.");
}

const COLOURS = { red: 31, green: 32, amber: 33, accent: 36, faint: 90, bold: 1 } as const;
export type Colour = keyof typeof COLOURS;

/** Colours are for a person at a terminal who has not refused them (https://no-color.org). */
export function isColourful(stream: { isTTY?: boolean } = process.stdout): boolean {
  return stream.isTTY === true && !process.env["NO_COLOR"] && process.env["TERM"] !== "dumb";
}

/** Colours text that is already harmless. `stream`: where it will be written. */
export function paint(
  colour: Colour | undefined,
  text: string,
  stream: { isTTY?: boolean } = process.stdout,
): string {
  return colour !== undefined && isColourful(stream) ? `\u001b[${COLOURS[colour]}m${text}\u001b[0m` : text;
}
