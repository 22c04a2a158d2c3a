import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { DibsError } from "../errors/errors.ts";
import { VERSION } from "./package-version.ts";

/**
 * Finds the files of dibs that are not imported: those that run as a thread or a process of their own, and the
 * dashboard's page. A bundler does not know of them. A bundled program finds them next to the bundle, if they were
 * bundled too, or else in the installed package.
 */

/** Where this code is. A bundle in CommonJS has no `import.meta.url`. */
function here(): string | undefined {
  const url = import.meta.url as string | undefined;
  if (url !== undefined) return url;
  return typeof __filename === "string" ? pathToFileURL(__filename).href : undefined;
}

/** `require()` for what a program may have installed. */
export function requireHere(): NodeJS.Require {
  return createRequire(here() ?? join(process.cwd(), "package.json"));
}

/**
 * The file of a thread, a process or the page. The sources name it by its path, such as `./thread.ts`, relative to the
 * `import.meta.url` of the caller. The build makes that `./dibs-thread.js`, a name that a user's file does not have.
 */
export function ownFile(name: string, caller: string | undefined): URL {
  const beside = besideCode(name, caller);
  const found = beside.find((each) => existsSync(each)) ?? inPackage(name);
  if (found) return found;
  throw new DibsError(
    "UNSUPPORTED",
    `dibs does not find its file ${name.replace("./", "")}: this program is a bundle, the file is not next to it, and no ` +
      `package dibs ${VERSION} is installed where it runs. Leave dibs out of the bundle and install it there: ` +
      `esbuild --external:dibs; Vite ssr: { external: ["dibs"] }; Next.js serverExternalPackages: ["dibs"]; webpack ` +
      `externals: { dibs: "import dibs" }. Or bundle the file too: docs/guides/bundlers-and-frameworks.md.`,
  );
}

/** Most code is in `dist` itself. An entry point such as `dist/cli/main.js` is in a folder of `dist`. */
function besideCode(name: string, caller: string | undefined): URL[] {
  const base = caller ?? here();
  return base === undefined ? [] : [new URL(name, base), new URL(`.${name}`, base)];
}

/** Only of the same version: the two sides speak a language of their own. */
function inPackage(name: string): URL | undefined {
  for (const base of [here(), join(process.cwd(), "package.json")]) {
    try {
      const manifest = createRequire(base!).resolve("dibs/package.json");
      const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { version: string };
      const file = new URL(name, pathToFileURL(join(dirname(manifest), "dist/")));
      if (version === VERSION && existsSync(file)) return file;
    } catch {
      // The package is not installed there.
    }
  }
  return undefined;
}
