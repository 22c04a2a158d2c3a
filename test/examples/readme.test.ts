// Code in the README, in llms.txt and under docs/ is checked against the library. The words of a ```ts block say how:
//   program       a whole program: its types are checked, and it is run
//   example=NAME  lines of examples/NAME.ts, in its order; with `program`, the whole file
//   recipe        a file of a recipe, which test/package/recipes.ts runs with the tools that it is for
//   (none)        a fragment, whose types are checked with the names of the prelude below

import { execFile } from "node:child_process";
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ERROR_CODES } from "../../src/core/errors/errors.ts";

const root = join(import.meta.dirname, "../..");
const source = (path: string): string => join(root, "src", path);

const PRELUDE = `
import type { Claim, Dibs, Queue, Topic, Worker } from "dibs";
import { defineQueue, each, open, Reject, Retry } from "dibs";
declare const dibs: Dibs;
declare const emails: Queue<{ to: string }, { sent: boolean }>;
declare const placed: Topic<{ id: number }>;
declare const worker: Worker;
declare const client: { query(sql: string, params?: unknown[]): Promise<unknown> };
declare const pool: import("pg").Pool;
declare const signer: { getAuthToken(): Promise<string> };
declare const claim: Claim<{ to: string }, { sent: boolean }>;
export { defineQueue, each, open, Reject, Retry };
`;

interface Block {
  where: string;
  words: string[];
  code: string;
}

const files = [
  "README.md",
  "llms.txt",
  "ARCHITECTURE.md",
  "CONTRIBUTING.md",
  "examples/README.md",
  "deploy/README.md",
  ...globSync(["docs/*.md", "docs/!(site)/**/*.md", "docs/site/*.md"], { cwd: root }),
];
const blocks = files.flatMap((file) => blocksOf(file));
const programs = blocks.filter(({ words }) => words.includes("program"));
const pieces = blocks.filter(({ words }) => words.length === 0);
const excerpts = blocks.filter(({ words }) => exampleOf(words) !== undefined);

function blocksOf(file: string): Block[] {
  const text = readFileSync(join(root, file), "utf8");
  return [...text.matchAll(/^```ts( [^\n]*)?\n([^]*?)^```$/gm)].map((match) => ({
    where: `${file}:${text.slice(0, match.index).split("\n").length}`,
    words: (match[1] ?? "").trim().split(/\s+/).filter(Boolean),
    code: match[2]!,
  }));
}

function exampleOf(words: string[]): string | undefined {
  return words.find((word) => word.startsWith("example="))?.slice("example=".length);
}

const run = promisify(execFile);
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "dibs-readme-"));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the README has a program, and the documents have code", () => {
  expect(programs.some(({ where }) => where.startsWith("README.md"))).toBe(true);
  expect(pieces.length).toBeGreaterThan(5);
  expect(
    blocks.flatMap(({ words }) => words).filter((word) => !/^(program|recipe|example=[a-z-]+)$/.test(word)),
  ).toEqual([]);
});

test("all code in the documents has the right types", async () => {
  for (const [index, { code, where }] of programs.entries()) {
    writeFileSync(join(folder, `program-${index}.ts`), `// ${where}\n${code}`);
  }
  for (const [index, { code, where }] of pieces.entries()) {
    const body = `// ${where}\nexport async function piece(): Promise<void> {\n${code}}\n`;
    writeFileSync(join(folder, `piece-${index}.ts`), PRELUDE + body);
  }
  const compilerOptions = {
    target: "es2024",
    lib: ["esnext"],
    module: "nodenext",
    moduleDetection: "force",
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    types: ["node"],
    typeRoots: [join(root, "node_modules/@types")],
    paths: {
      pg: [join(root, "node_modules/@types/pg")],
      dibs: [source("index.ts")],
      "dibs/testing": [source("testing/index.ts")],
      "dibs/dashboard": [source("server/mount-dashboard.ts")],
    },
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  const said = await run(process.execPath, [join(root, "node_modules/typescript/bin/tsc")], {
    cwd: folder,
  }).then(
    ({ stdout }) => stdout,
    (error: unknown) => (error as { stdout: string }).stdout,
  );
  expect(said).toBe("");
});

test.each(programs)("the program at $where runs", async ({ code }) => {
  const path = join(folder, `run-${programs.findIndex((program) => program.code === code)}.ts`);
  writeFileSync(path, withSources(code));
  await run(process.execPath, [path], { cwd: folder, timeout: 20_000 });
});

function withSources(code: string): string {
  return code
    .replaceAll(`from "dibs/testing"`, `from "${pathToFileURL(source("testing/index.ts")).href}"`)
    .replaceAll(`from "dibs/dashboard"`, `from "${pathToFileURL(source("server/mount-dashboard.ts")).href}"`)
    .replaceAll(`from "dibs"`, `from "${pathToFileURL(source("index.ts")).href}"`);
}

test.each(excerpts)("the code at $where matches its example", ({ words, code }) => {
  const example = readFileSync(join(root, "examples", `${exampleOf(words)}.ts`), "utf8");
  if (words.includes("program")) {
    expect(code).toBe(example.replace(`"../src/index.ts"`, `"dibs"`));
    return;
  }
  let from = 0;
  const lines = linesOf(example);
  for (const line of linesOf(code)) {
    const at = lines.indexOf(line, from);
    expect(at, `${line} (or its place)`).toBeGreaterThanOrEqual(0);
    from = at + 1;
  }
});

function linesOf(code: string): string[] {
  return code.split("\n").flatMap((line) => (line.trim() === "" ? [] : [line.trim()]));
}

test.each(["README.md", "docs/reference/errors.md"])("%s names every error code", (file) => {
  const text = readFileSync(join(root, file), "utf8");
  const known = file === "README.md" ? ERROR_CODES.filter((code) => code !== "FORBIDDEN") : ERROR_CODES;
  expect(known.filter((code) => !text.includes(`\`${code}\``))).toEqual([]);
});

test("links lead to existing files", () => {
  const broken = [...files, "CHANGELOG.md"].flatMap((file) => {
    const text = readFileSync(join(root, file), "utf8");
    const links = [...text.matchAll(/\]\(([^)#\s]+)(#[^)]*)?\)/g)].map((match) => match[1]!);
    return links
      .filter((link) => !/^https?:/.test(link) && !exists(file, link))
      .map((link) => `${file}: ${link}`);
  });
  expect(broken).toEqual([]);
});

function exists(file: string, link: string): boolean {
  return globSync(join(root, file, "..", link)).length > 0;
}
