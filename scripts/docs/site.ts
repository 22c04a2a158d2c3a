// Makes the pages of the site from the repository: Markdown with links that lead to other pages of the site. A source
// file or folder that a page links to becomes a page too, so that the site is complete without a code host.

import { posix } from "node:path";
import { outsideCode, replaceTargets, slugsOf } from "./markdown.ts";
import { addressOf, contentOf, kindOf, pagesOfRepository, textOf, titleOf } from "./repository.ts";
import { entriesOf } from "./sidebar.ts";

export interface Site {
  /** Text of each page, by its file below the folder of pages. */
  pages: Map<string, string>;
  /** Pictures: the path in the repository, and the address on the site. */
  pictures: Map<string, string>;
  /** Links that lead nowhere, with their page. */
  broken: string[];
}

const START_PAGE = "docs/site/home.md";

/** @param read returns the text of a page of the repository */
export function makeSite(read = textOf): Site {
  const site: Site = { pages: new Map(), pictures: new Map(), broken: [] };
  const linked = new Set<string>();
  const add = (path: string, text: string): void => {
    site.pages.set(
      fileOf(path),
      replaceTargets(text, (target) => resolve(site, linked, path, target)),
    );
  };
  for (const path of [START_PAGE, ...pagesOfRepository()]) add(path, adapted(read(path)));
  // A generated page may link to more files.
  for (const path of linked) {
    if (site.pages.has(fileOf(path))) continue;
    add(path, kindOf(path) === "folder" ? pageOfFolder(path) : pageOfFile(path));
  }
  return site;
}

/** The file of a page below the folder of pages. */
function fileOf(path: string): string {
  if (path === START_PAGE) return "index.md";
  const address = addressOf(path).slice(1);
  return address.endsWith("/") ? `${address}index.md` : `${address}.md`;
}

function resolve(site: Site, linked: Set<string>, page: string, target: string): string {
  const [link = "", anchor] = target.split("#");
  // The path of a folder may end in a slash.
  const path = link === "" ? page : posix.join(posix.dirname(page), link).replace(/\/$/, "");
  const kind = kindOf(path);
  const noSuchHeading = anchor !== undefined && (kind !== "page" || !slugsOf(textOf(path)).has(anchor));
  if (kind === "missing" || path.startsWith("..") || noSuchHeading) {
    site.broken.push(`${page}: ${target}`);
    return target;
  }
  const address = addressOf(path);
  if (kind === "picture") site.pictures.set(path, address);
  if (kind === "file" || kind === "folder") linked.add(path);
  return anchor === undefined ? address : `${link === "" ? "" : address}#${anchor}`;
}

/** What a code host shows differently. */
function adapted(text: string): string {
  return outsideCode(text, withBothPictures);
}

/** The site has a switch for dark mode, which `<picture>` does not know. */
function withBothPictures(text: string): string {
  const picture =
    /<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(.+?)">\s*<img alt="(.*?)" src="(.+?)">\s*<\/picture>/g;
  return text.replaceAll(
    picture,
    '<img class="if-light" alt="$2" src="$3"><img class="if-dark" alt="$2" src="$1">',
  );
}

function pageOfFile(path: string): string {
  const language = { ts: "ts", mjs: "js", json: "json", py: "py", sh: "sh", yaml: "yaml" }[
    posix.extname(path).slice(1)
  ];
  return `# ${posix.basename(path)}\n\nThe file \`${path}\`.\n\n${"`".repeat(4)}${language ?? "txt"}\n${textOf(path)}\n${"`".repeat(4)}\n`;
}

function pageOfFolder(folder: string): string {
  const files = contentOf(folder);
  const name = posix.basename(folder);
  const title = `${name.charAt(0).toUpperCase()}${name.slice(1)}`;
  const pictures = files.filter((path) => path.endsWith("-light.webp"));
  if (pictures.length > 0) return pageOfPictures(folder, title, pictures);
  const entries = entriesOf(folder);
  if (entries.length > 0) {
    const lines = entries.map(
      ({ path, title, about }) =>
        `- [${title}](${fromParent(folder, path)})${about === undefined ? "" : `: ${about}`}`,
    );
    return `# ${title}\n\n${lines.join("\n")}\n`;
  }
  const links = files.map((path) =>
    kindOf(path) === "page"
      ? `- [${titleOf(path)}](${fromParent(folder, path)})`
      : `- [\`${posix.basename(path)}\`](${fromParent(folder, path)})`,
  );
  return `# ${title}\n\nThe folder \`${folder}\`.\n\n${links.join("\n")}\n`;
}

/** Links of a generated page are relative to the folder's parent, as those of any page are to its folder. */
function fromParent(folder: string, path: string): string {
  return posix.relative(posix.dirname(folder), path);
}

function pageOfPictures(folder: string, title: string, pictures: string[]): string {
  const parts = pictures.map((light) => {
    const name = posix.basename(light, "-light.webp");
    const heading = `${name.charAt(0).toUpperCase()}${name.slice(1).replaceAll("-", " ")}`;
    const source = (theme: string): string => fromParent(folder, posix.join(folder, `${name}-${theme}.webp`));
    return (
      `## ${heading}\n\n<img class="if-light" alt="${heading}" src="${source("light")}">` +
      `<img class="if-dark" alt="${heading}" src="${source("dark")}">\n`
    );
  });
  return `# ${title}\n\n${parts.join("\n")}`;
}
