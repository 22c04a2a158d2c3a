// The order of the pages, for the sidebar and for the lists of the folders. `llms.txt` has that order and a sentence
// about each page, and a test checks that it names every concept, guide and reference. Decisions follow by number.

import { posix } from "node:path";
import { addressOf, pagesOfRepository, textOf, titleOf } from "./repository.ts";

export interface Entry {
  path: string;
  title: string;
  /** One line about the page; none for decisions. */
  about?: string;
}

export interface Section {
  title: string;
  /** Whether the sidebar shows only its title at first. */
  collapsed: boolean;
  entries: Entry[];
}

const PROJECT = ["ARCHITECTURE.md", "CONTRIBUTING.md", "deploy/README.md", "bench/README.md", "CHANGELOG.md"];

export function sections(): Section[] {
  const listed = listedSections();
  const start = (listed.get("Start here") ?? []).filter(({ path }) => !PROJECT.includes(path));
  const open = ["Concepts", "Guides", "Reference"].map((title) => ({
    title,
    collapsed: false,
    entries: listed.get(title) ?? [],
  }));
  return [
    {
      title: "Start here",
      collapsed: false,
      entries: start.map((entry) => (entry.path === "README.md" ? { ...entry, title: "Overview" } : entry)),
    },
    ...open,
    { title: "Decisions", collapsed: true, entries: decisions() },
    { title: "Project", collapsed: true, entries: PROJECT.map((path) => ({ path, title: titleOf(path) })) },
  ];
}

/** The pages of a folder with the sentence about each, in the order of the sidebar. */
export function entriesOf(folder: string): Entry[] {
  return sections()
    .flatMap(({ entries }) => entries)
    .filter(({ path }) => posix.dirname(path) === folder);
}

/** As VitePress takes it. */
export function sidebar(): unknown[] {
  return sections().map(({ title, collapsed, entries }) => ({
    text: title,
    collapsed,
    items: entries.map(({ path, title }) => ({ text: title, link: addressOf(path) })),
  }));
}

function listedSections(): Map<string, Entry[]> {
  const found = new Map<string, Entry[]>();
  for (const part of textOf("llms.txt").split(/^## /m).slice(1)) {
    const title = part.slice(0, part.indexOf("\n"));
    const entries = [...part.matchAll(/^- \[(.+?)\]\((.+?)\): (.+(?:\n {2}.+)*)$/gm)];
    found.set(
      title,
      entries.map(([, title, path, about]) => ({ title: title!, path: path!, about: about! })),
    );
  }
  return found;
}

function decisions(): Entry[] {
  return pagesOfRepository()
    .filter((path) => path.startsWith("docs/decisions/"))
    .map((path) => ({
      path,
      title: `${posix.basename(path).slice(0, 4)} ${titleOf(path).replace(/^\d+[.:]? */, "")}`,
    }));
}
