import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { WebFiles } from "./web-files.ts";

/** Of a built package: `dist/web`. The file that this is bundled into is in `dist`, or in a folder of it. */
const BUILT = ["./web/", "../web/"];
/** In a clone, where sources run as they are, the page is built on first use. Not imported: it is not published. */
const BUILDER = "../../scripts/build-web.ts";

/** Loads the page once, on first use. Undefined: there is none, and the server has only its interfaces. */
export function webLoader(): () => Promise<WebFiles | undefined> {
  let loading: Promise<WebFiles | undefined> | undefined;
  return () => {
    loading ??= findFolder().then((folder) => (folder === undefined ? undefined : WebFiles.load(folder)));
    // The next request tries again.
    loading.catch(() => (loading = undefined));
    return loading;
  };
}

async function findFolder(): Promise<string | undefined> {
  const builder = new URL(BUILDER, import.meta.url).href;
  if (import.meta.url.endsWith(".ts") && existsSync(fileURLToPath(builder))) {
    const { buildWeb } = (await import(builder)) as { buildWeb: () => Promise<string> };
    return buildWeb();
  }
  return BUILT.map((place) => fileURLToPath(new URL(place, import.meta.url))).find((folder) =>
    existsSync(`${folder}index.html`),
  );
}
