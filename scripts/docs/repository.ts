// The repository as the site of the documentation sees it: which files are pages, and where each is on the site.

import { existsSync, globSync, readFileSync, statSync } from "node:fs";
import { join, posix } from "node:path";

const root = join(import.meta.dirname, "../..");

/** Pages of Markdown. Other files and folders become pages when a page links to them. */
const PAGES = ["*.md", "{bench,deploy,examples}/README.md", "docs/*.md", "docs/!(site)/**/*.md"];

export function pagesOfRepository(): string[] {
  return [...new Set(PAGES.flatMap((pattern) => globSync(pattern, { cwd: root })))].sort();
}

export function textOf(path: string): string {
  return readFileSync(join(root, path), "utf8");
}

export function kindOf(path: string): "page" | "picture" | "file" | "folder" | "missing" {
  const full = join(root, path);
  if (!existsSync(full)) return "missing";
  if (statSync(full).isDirectory()) return "folder";
  if (path.endsWith(".md")) return "page";
  return /\.(webp|svg|png)$/.test(path) ? "picture" : "file";
}

/** Files and folders in a folder, without what is below those. */
export function contentOf(folder: string): string[] {
  return globSync("*", { cwd: join(root, folder), exclude: ["node_modules"] })
    .map((name) => posix.join(folder, name))
    .sort();
}

/** The address of a file or folder on the site: `docs/guides/http.md` is `/guides/http`. */
export function addressOf(path: string): string {
  const below = path.replace(/^docs\//, "");
  switch (kindOf(path)) {
    case "folder":
      return `/${below}/`;
    case "page":
      if (path === "README.md") return "/readme";
      if (below.endsWith("/README.md")) return `/${posix.dirname(below)}/`;
      return `/${(below.includes("/") ? below : below.toLowerCase()).slice(0, -".md".length)}`;
    default:
      return `/${below}`;
  }
}

/** The first heading of a page. */
export function titleOf(path: string): string {
  return /^# (.+)$/m.exec(textOf(path))?.[1]?.replaceAll("`", "") ?? path;
}
