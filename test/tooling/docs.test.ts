// The form of the documentation: line lengths, the length of decisions, and the files that it names.

import { globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");

const found = (pattern: string): string[] => globSync(pattern, { cwd: root });
// docs/site has the packages that build the site.
const documentation = ["docs/*.md", "docs/!(site)/**/*.md", "docs/site/*.md"];
const pages = ["*.md", "{bench,deploy,examples}/*.md", ...documentation].flatMap(found);
const sources = ["{src,test,scripts,examples,web}/**/*.ts", "bench/*.ts", "bench/scenarios/*.ts"].flatMap(
  found,
);
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

test("llms.txt lists every concept, guide and reference", () => {
  const listed = textOf("llms.txt");
  const missing = found("docs/{concepts,guides,reference}/*.md").filter(
    (page) => !listed.includes(`](${page})`),
  );
  expect(missing).toEqual([]);
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

/** Pages that name source files. */
const namingPages = [...decisions, "ARCHITECTURE.md", "CONTRIBUTING.md"];
const filesIn = (text: string): string[] => [...text.matchAll(/`([\w/.-]+\.ts)`/g)].map((match) => match[1]!);

test("source files that decisions, ARCHITECTURE and CONTRIBUTING name exist", () => {
  const names = new Set(sources.map((path) => basename(path)));
  const missing = namingPages.flatMap((page) =>
    filesIn(textOf(page))
      .filter((path) => (path.includes("/") ? !exists(path) : !names.has(path)))
      .map((path) => `${page}: ${path}`),
  );
  expect(missing).toEqual([]);
});

test("folders and pages that ARCHITECTURE and CONTRIBUTING name exist", () => {
  const missing = ["ARCHITECTURE.md", "CONTRIBUTING.md"].flatMap((page) =>
    [...textOf(page).matchAll(/`((?:src|test|docs)\/[\w/.-]*?)\/?`/g)]
      .map((match) => match[1]!)
      .filter(
        (path) => !path.endsWith(".ts") && found(path).length === 0 && found(`${path}.test.ts`).length === 0,
      )
      .map((path) => `${page}: ${path}`),
  );
  expect(missing).toEqual([]);
});

/** The steps of a list under a heading of ARCHITECTURE: the name of each, and the files that it names. */
function stepsOf(heading: string): { name: string; text: string; files: string[] }[] {
  const section = textOf("ARCHITECTURE.md").split(`### ${heading}\n`)[1]!.split("\n#")[0]!;
  return [...section.matchAll(/^\d+\. \*\*(.+?)\.\*\*((?:.|\n(?! ?\d+\.|\n))*)/gm)].map(([, name, text]) => ({
    name: name!,
    text: text!,
    files: filesIn(text!),
  }));
}

test.each(["add", "claim and ack"])(
  "the steps of %s in ARCHITECTURE are the same on both SQL engines, with one file each",
  (path) => {
    const postgres = stepsOf(`${path} on PostgreSQL`);
    const sqlite = stepsOf(`${path} on SQLite`);
    expect(postgres.length).toBeGreaterThan(10);
    expect(sqlite.map(({ name }) => name)).toEqual(postgres.map(({ name }) => name));
    const refersElsewhere = (text: string): boolean =>
      /^ (No such step: |As steps \d+ to \d+ of )/.test(text);
    const wrong = [...postgres, ...sqlite].filter(
      ({ text, files }) => files.length !== (refersElsewhere(text) ? 0 : 1),
    );
    expect(wrong).toEqual([]);
  },
);

/** A path from the root or from src/, or from the folders of both SQL engines: `verbs/claim.ts`. */
function exists(path: string): boolean {
  const has = (file: string): boolean => sources.includes(file);
  if (has(path) || has(`src/${path}`)) return true;
  return ["sqlite", "postgres"].every((engine) => has(`src/engines/${engine}/${path}`));
}
