// The site of the documentation. `npm run docs` writes its pages and sidebar first (scripts/docs).

import { readFileSync } from "node:fs";
import { slugOf } from "../../../scripts/docs/markdown.ts";

const sidebar = JSON.parse(readFileSync(new URL("../pages/sidebar.json", import.meta.url), "utf8"));

export default {
  title: "dibs",
  description: "A work queue for agents and background jobs, on a file or on PostgreSQL",
  lang: "en",
  srcDir: "pages",
  outDir: "dist",
  /** For a host that serves the site below a path: DIBS_DOCS_BASE=/dibs/ */
  base: process.env.DIBS_DOCS_BASE ?? "/",
  head: [["link", { rel: "icon", href: "data:," }]],
  markdown: {
    // Headings have the names that code hosts give them.
    anchor: { slugify: slugOf },
    theme: { light: "github-light", dark: "github-dark" },
  },
  // One page has a picture of 4,000 pixels, and the index of the search is one file.
  vite: { build: { chunkSizeWarningLimit: 2_000 } },
  themeConfig: {
    sidebar,
    outline: { level: [2, 3] },
    search: { provider: "local", options: { detailedView: true } },
    nav: [
      { text: "Overview", link: "/readme" },
      { text: "API", link: "/reference/api" },
      { text: "Examples", link: "/examples/" },
      { text: "Compare", link: "/compare" },
    ],
    docFooter: { prev: "Previous", next: "Next" },
  },
};
