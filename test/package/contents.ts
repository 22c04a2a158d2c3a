// What is in the package: what users need, nothing else, and pages whose links work where npm has put them.

import { readFileSync } from "node:fs";
import { join, posix } from "node:path";

const NEEDED = [
  "dist/cli/main.js",
  "dist/index.js",
  "dist/index.d.ts",
  "dist/index.d.cts",
  "dist/testing/index.js",
  "dist/testing/index.d.ts",
  "dist/testing/index.d.cts",
  "dist/server/mount-dashboard.js",
  "dist/server/mount-dashboard.d.ts",
  "dist/server/mount-dashboard.d.cts",
  "dist/web/index.html",
  "docs/reference/api.md",
  "docs/guides/postgres.md",
  "examples/hello.ts",
  "llms.txt",
  "package.json",
  "README.md",
  "LICENSE",
  "CHANGELOG.md",
];

const STRAY = /^dist\/.*conformance|\.test\b|^(?!examples\/).*(?<!\.d)\.ts$/;

/** @param paths of the files in the package, relative to its root, which is also that of the repository */
export function checkContents(root: string, paths: string[]): void {
  const missing = NEEDED.filter((path) => !paths.includes(path));
  if (missing.length > 0) throw new Error(`not in the package: ${missing.join(", ")}`);
  const strays = paths.filter((path) => STRAY.test(path));
  if (strays.length > 0) throw new Error(`the package has what is not for its users: ${strays.join(", ")}`);
  const textOf = (path: string): string => readFileSync(join(root, path), "utf8");
  const broken = paths
    .filter((path) => /\.(md|txt)$/.test(path))
    .flatMap((page) => brokenLinks(page, textOf(page), paths));
  if (broken.length > 0) throw new Error(`links that leave the package: ${broken.join(", ")}`);
  const internal = paths.filter((path) => path.endsWith(".d.ts") && textOf(path).includes("@internal"));
  if (internal.length > 0) throw new Error(`types that are not for users: ${internal.join(", ")}`);
}

function brokenLinks(page: string, text: string, paths: string[]): string[] {
  const links = [...text.matchAll(/(?:\]\(|src(?:set)?=")([^)"#\s]+)/g)].map((match) => match[1]!);
  return links
    .filter((link) => !/^https?:/.test(link))
    .filter((link) => {
      const target = posix.join(posix.dirname(page), link).replace(/\/$/, "");
      return !paths.some((path) => path === target || path.startsWith(`${target}/`));
    })
    .map((link) => `${page}: ${link}`);
}
