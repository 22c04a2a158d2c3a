import { escapeControls } from "../core/errors/show.ts";
import { type Colour, paint } from "./output.ts";

/** What `show` prints for people: a name and a value per line. A value that is undefined or empty is left out. */
export type Field = readonly [name: string, value: string | number | undefined, colour?: Colour | undefined];

export function printFields(fields: readonly Field[]): void {
  const shown = fields.filter(([, value]) => value !== undefined && value !== "");
  const width = shown.reduce((most, [name]) => Math.max(most, name.length), 0);
  for (const [name, value, colour] of shown) {
    const lines = linesOf(String(value));
    const head = `${paint("faint", name.padEnd(width))}  `;
    if (lines.length === 1) {
      process.stdout.write(`${head}${paint(colour, lines[0]!)}\n`);
      continue;
    }
    process.stdout.write(`${head.trimEnd()}\n`);
    for (const line of lines) process.stdout.write(`  ${paint(colour, line)}\n`);
  }
}

/** A heading between blocks of fields or tables. */
export function printHeading(text: string): void {
  process.stdout.write(`\n${paint("bold", escapeControls(text))}\n`);
}

/** Line breaks stay line breaks; all other control characters are escaped. */
function linesOf(text: string): string[] {
  return text.split(/\r?\n/).map(escapeControls);
}

/** A payload or result, as JSON with line breaks if it is not short. */
export function formatBody(value: unknown): string {
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  const short = JSON.stringify(value) ?? "null";
  return short.length <= 100 ? short : JSON.stringify(value, null, 2);
}
