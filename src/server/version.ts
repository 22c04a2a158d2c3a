import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** From the nearest package.json above: this file is in `src` in a clone, and in a bundle in the package. */
export function readVersion(): string {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, "package.json"))) folder = dirname(folder);
  return (JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { version: string }).version;
}
