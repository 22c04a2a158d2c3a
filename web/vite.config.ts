import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

/** How the page is built. `scripts/build-web.ts` says where to. */
export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  // Relative addresses: the page also works under a prefix of another app.
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  // The server writes the place where the page is mounted into exactly this text; oxfmt writes ` />` in sources.
  plugins: [
    { name: "base", transformIndexHtml: (html) => html.replace('<base href="/" />', '<base href="/">') },
  ],
  build: {
    target: "es2022",
    // One script and one style sheet: the page is small, and every further file is a round trip.
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
});
