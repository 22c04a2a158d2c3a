// The pages that `npm run docs` gives to VitePress. The site itself is built by CI.

import { expect, test } from "vitest";
import { replaceTargets, slugsOf } from "../../scripts/docs/markdown.ts";
import { textOf } from "../../scripts/docs/repository.ts";
import { sections } from "../../scripts/docs/sidebar.ts";
import { makeSite } from "../../scripts/docs/site.ts";

test("every link of the documentation leads to a page, a file or a heading", () => {
  expect(makeSite().broken).toEqual([]);
});

test("links to a missing page, a missing heading and out of the repository are found", () => {
  const dead = ["guides/no-such.md", "guides/http.md#no-such", "#no-such", "../../elsewhere.md"];
  const lines = dead.map((target) => `[x](${target})`).join("\n\n");
  const { broken } = makeSite((path) => textOf(path) + (path === "docs/compare.md" ? `\n${lines}\n` : ""));
  expect(broken).toEqual(dead.map((target) => `docs/compare.md: ${target}`));
});

test("links lead to pages of the site, also those to files outside of docs/", () => {
  const { pages, pictures } = makeSite();
  expect(pages.get("guides/migrate-from-celery.md")).toContain("(/examples/migrate-celery.ts)");
  expect(pages.get("examples/migrate-celery.ts.md")).toContain("import");
  expect(pages.get("architecture.md")).toContain("(/contributing#glossary)");
  expect(pages.get("guides/index.md")).toContain("[PostgreSQL](/guides/postgres)");
  expect(pictures.get("docs/screenshots/live-dark.webp")).toBe("/screenshots/live-dark.webp");
});

test("code is left alone, and headings have the names that code hosts give them", () => {
  const text = "[a](b.md) `[c](d.md)`\n\n```md\n[e](f.md)\n```\n";
  expect(replaceTargets(text, (target) => target.toUpperCase())).toBe(text.replace("b.md", "B.MD"));
  expect([...slugsOf("# `open(url?)`: it\n## Same\n## Same\n```sh\n# no heading\n```\n")]).toEqual([
    "openurl-it",
    "same",
    "same-1",
  ]);
});

test("the sidebar has every page of the documentation once", () => {
  const listed = sections().flatMap(({ entries }) => entries.map(({ path }) => path));
  expect(new Set(listed).size).toBe(listed.length);
  const written = [...makeSite().pages.keys()].filter((file) => /^(concepts|guides|reference)\//.test(file));
  expect(listed.filter((path) => /^docs\/(concepts|guides|reference)\//.test(path))).toHaveLength(
    written.filter((file) => !file.endsWith("/index.md")).length,
  );
});
