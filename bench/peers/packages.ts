import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const folder = import.meta.dirname;
const requireHere = createRequire(join(folder, "package.json"));

/**
 * The peers' clients are not dependencies of dibs. They have their own package.json and lock file, and are installed
 * when they are first needed. `npm ci` is not used, because it refuses lock files that lack optional packages for
 * other platforms. Install scripts are off, because none of the clients needs them.
 */
export function installPackages(): void {
  if (changedAt("node_modules/.package-lock.json") > changedAt("package-lock.json")) return;
  console.error("installing the peers' clients into bench/peers/node_modules");
  const args = ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const { status } = spawnSync("npm", args, { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  if (status !== 0) console.error("npm install failed: peers whose client is missing are left out.");
}

function changedAt(name: string): number {
  return statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

/** The caller states the types: dibs is type-checked without these packages. */
export function load(name: string): unknown {
  return requireHere(name);
}

/** Describes which of these packages are missing. */
export function missingPackage(...names: string[]): string | undefined {
  const missing = names.find((name) => !existsSync(join(folder, "node_modules", name)));
  return missing && `the npm package ${missing} is not installed in bench/peers`;
}
