// The form of the documentation: line lengths, the length of decisions, and the files that it names.

import { globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");

const found = (pattern: string): string[] => globSync(pattern, { cwd: root });
const pages = ["*.md", "{bench,deploy,examples}/*.md", "docs/**/*.md"].flatMap(found);
const sources = ["{src,test,scripts,examples}/**/*.ts", "bench/*.ts", "bench/scenarios/*.ts"].flatMap(found);
const textOf = (path: string): string => readFileSync(join(root, path), "utf8");

const LONGEST_LINE = 120;

test("lines of Markdown have at most 120 characters, tables excepted", () => {
  const long = pages.flatMap((page) =>
    textOf(page)
      .split("\n")
      .flatMap((line, index) =>
        line.length > LONGEST_LINE && !line.trimStart().startsWith("|") ? [`${page}:${index + 1}`] : [],
      ),
  );
  expect(long).toEqual([]);
});

/** One page is about 450 words; this leaves room for a table. */
const LONGEST_DECISION = 520;

const decisions = pages.filter((page) => page.startsWith("docs/decisions/"));

test("each decision has its own number and at most one page (about 450 words)", () => {
  const numbers = decisions.map((page) => basename(page).slice(0, 4));
  expect(new Set(numbers).size).toBe(numbers.length);
  const long = decisions.filter((page) => textOf(page).split(/\s+/).length > LONGEST_DECISION);
  expect(long).toEqual([]);
});

test("source files that decisions name exist", () => {
  const names = new Set(sources.map((path) => basename(path)));
  const missing = decisions.flatMap((page) =>
    [...textOf(page).matchAll(/`([\w/.-]+\.ts)`/g)]
      .map((match) => match[1]!)
      .filter((path) => (path.includes("/") ? !exists(path) : !names.has(path)))
      .map((path) => `${page}: ${path}`),
  );
  expect(missing).toEqual([]);
});

/** A path from the root, or from src/. */
function exists(path: string): boolean {
  return sources.some((file) => file === path || file === `src/${path}`);
}
