import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

const TABLES = String.raw`(?:ready|ready_elsewhere|ready_sticky|\$\{)`;

/**
 * A statement that puts rows into a table of a line, or changes them there. The name of the table may be computed. Deletes
 * take tasks out, and may be anywhere.
 */
const WRITES = new RegExp(
  String.raw`\b(?:INSERT\s+INTO|UPDATE|MERGE\s+INTO|COPY)\s+(?:dibs\.)?${TABLES}|\binsertRows?\(\s*\w+,\s*"(?:ready|ready_elsewhere|ready_sticky)"`,
  "gi",
);

/** `file: statement` for each statement of an engine, outside the one module that may, that writes to a line. */
export function strayLineWriters(engine: string, allowed: readonly string[]): string[] {
  const root = join("src/engines", engine);
  const files = globSync("**/*.ts", { cwd: root }).map((file) => file.replaceAll("\\", "/"));
  return files
    .filter((file) => !allowed.includes(file))
    .flatMap((file) => {
      const found = readFileSync(join(root, file), "utf8").match(WRITES) ?? [];
      return found.map((statement) => `${file}: ${statement.replaceAll(/\s+/g, " ")}`);
    });
}
