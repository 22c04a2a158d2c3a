import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "tsdown";
import { buildWeb } from "../scripts/build-web.ts";
import config from "../tsdown.config.ts";

const ROOT = join(import.meta.dirname, "..");

/**
 * A program as JavaScript, with dibs as it is published. If Node strips the types of the sources, that alone takes about
 * 40 MB of memory. Built once per benchmark. `program`: its source, from the root.
 */
export async function built(program: string, cache: string): Promise<URL> {
  const folder = join(cache, "built", program.replaceAll("/", "-"));
  const file = join(folder, program.replace(/\.ts$/, ".js"));
  if (!existsSync(file)) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "package.json"), readFileSync(join(ROOT, "package.json")));
    // Dependencies are looked for from here upwards.
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
    // A server does not start without the dashboard's page.
    symlinkSync(await buildWeb(), join(folder, "web"));
    await build({
      ...config,
      config: false,
      cwd: ROOT,
      root: ROOT,
      entry: [program],
      outDir: folder,
      clean: false,
      dts: false,
      logLevel: "error",
    });
  }
  return pathToFileURL(file);
}
