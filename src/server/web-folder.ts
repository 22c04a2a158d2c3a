import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { ownFile } from "../core/process/own-files.ts";
import { WebFiles } from "./web-files.ts";

/** In a clone, where sources run as they are, the page is built on first use. Not imported: it is not published. */
const BUILDER = "../../scripts/build-web.ts";

/** Loads the page once, on first use. Throws at once if the program is a bundle that has lost it. */
export function webLoader(): () => Promise<WebFiles> {
  const find = findFolder();
  let loading: Promise<WebFiles> | undefined;
  return () => {
    loading ??= find().then((folder) => WebFiles.load(folder));
    // The next request tries again.
    loading.catch(() => (loading = undefined));
    return loading;
  };
}

function findFolder(): () => Promise<string> {
  const code = import.meta.url as string | undefined;
  const builder = code?.endsWith(".ts") ? new URL(BUILDER, code) : undefined;
  if (builder && existsSync(builder)) {
    return async () => ((await import(builder.href)) as { buildWeb: () => Promise<string> }).buildWeb();
  }
  const folder = fileURLToPath(new URL(".", ownFile("./web/index.html", code)));
  return async () => folder;
}
