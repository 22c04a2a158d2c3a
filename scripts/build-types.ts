// Writes a .d.cts beside the built types of each entry point, for TypeScript that compiles to CommonJS. There, Node
// loads the same files with require(). TypeScript refuses that with module node16 and node18, because it judges by the
// types' file name. The types themselves are those of the module, so that both kinds of import can be mixed.

import { writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import manifest from "../package.json" with { type: "json" };

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const MODULE = `with { "resolution-mode": "import" }`;

for (const entry of Object.values(manifest.exports)) {
  if (typeof entry === "string") continue;
  const exported = (await import(pathToFileURL(join(ROOT, entry.default)).href)) as Record<string, unknown>;
  writeFileSync(join(ROOT, entry.types.require), typesOf(basename(entry.default), exported));
}

function typesOf(file: string, exported: Record<string, unknown>): string {
  const lines = Object.entries(exported).flatMap(([name, value]) => [
    `export declare const ${name}: typeof values.${name};`,
    ...(isClass(value) ? [`export type ${name} = values.${name};`] : []),
  ]);
  return [
    `import type * as values from "./${file}" ${MODULE};`,
    `export type * from "./${file}" ${MODULE};`,
    ...lines,
    "",
  ].join("\n");
}

function isClass(value: unknown): boolean {
  return typeof value === "function" && /^class\b/.test(String(value));
}
