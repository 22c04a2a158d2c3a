import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const folder = import.meta.dirname;
const requireHere = createRequire(join(folder, "package.json"));

/**
 * The peers' clients are no dependency of dibs: they have a package.json and a lock file of their own, and are
 * installed when they are first asked for. Not by `npm ci`, which refuses lock files that lack optional packages
 * for other platforms; without scripts, because none of them needs any.
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

/** The types are the caller's word: without the packages there are none, and dibs is checked without them. */
export function load(name: string): unknown {
  return requireHere(name);
}

/** In words, what is missing of these packages. */
export function missingPackage(...names: string[]): string | undefined {
  const missing = names.find((name) => !existsSync(join(folder, "node_modules", name)));
  return missing && `the npm package ${missing} is not installed in bench/peers`;
}
