// `npm run docs` serves the documentation as a site and follows changes; `npm run docs:build` writes it to
// docs/site/dist. Both fail on links that lead nowhere.
//
// The builder is not a dependency of dibs. It has its own package.json and lock file in docs/site, and is installed
// when it is first needed. `npm ci` is not used, because it refuses lock files that lack optional packages for other
// platforms. Install scripts are off, because none of the packages needs them.

import { spawn, spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  watch,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { sidebar } from "./sidebar.ts";
import { makeSite } from "./site.ts";

const root = join(import.meta.dirname, "../..");
const folder = join(root, "docs/site");
/** Generated, and not in Git: the pages, and beside them what the configuration reads. */
const pages = join(folder, "pages");

const command = process.argv[2];
if (command !== "serve" && command !== "build") {
  console.error("usage: node scripts/docs/run.ts serve|build [options of VitePress]");
  process.exit(2);
}

install();
rmSync(pages, { recursive: true, force: true });
const broken = write();
if (broken.length > 0) {
  console.error(`links that lead nowhere:\n${broken.map((link) => `  ${link}`).join("\n")}`);
  if (command === "build") process.exit(1);
}
if (command === "serve") rewriteOnChange();
const vitepress = join(folder, "node_modules/vitepress/bin/vitepress.js");
const args = [vitepress, command === "serve" ? "dev" : "build", ".", ...process.argv.slice(3)];
const child = spawn(process.execPath, args, { cwd: folder, stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
child.once("close", (code) => process.exit(code ?? 1));

function install(): void {
  const changedAt = (name: string): number =>
    statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (changedAt("node_modules/.package-lock.json") > changedAt("package-lock.json")) return;
  console.error("installing VitePress into docs/site/node_modules");
  const args = ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const { status } = spawnSync("npm", args, { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  if (status !== 0) process.exit(status ?? 1);
}

/** @returns links that lead nowhere */
function write(): string[] {
  const site = makeSite();
  for (const [file, text] of site.pages) put(join(pages, file), text);
  put(join(pages, "sidebar.json"), JSON.stringify(sidebar()));
  for (const [path, address] of site.pictures) {
    const target = join(pages, "public", address);
    mkdirSync(dirname(target), { recursive: true });
    copyFileSync(join(root, path), target);
  }
  return site.broken;
}

/** Leaves files alone that have this text, so that the page in the browser is reloaded only if it changed. */
function put(file: string, text: string): void {
  if (existsSync(file) && readFileSync(file, "utf8") === text) return;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

function rewriteOnChange(): void {
  let timer: NodeJS.Timeout | undefined;
  const changed = (_event: string, name: string | null): void => {
    if (name !== null && !/\.md$|^llms\.txt$/.test(name)) return;
    if (name?.includes("site/pages") === true) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      for (const link of write()) console.error(`a link that leads nowhere: ${link}`);
    }, 50);
  };
  watch(join(root, "docs"), { recursive: true }, changed);
  for (const name of [".", "bench", "deploy", "examples"]) watch(join(root, name), changed);
}
