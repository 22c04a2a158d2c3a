import { existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "tsdown";
import config from "../tsdown.config.ts";

const ROOT = join(import.meta.dirname, "..");

/**
 * A helper as JavaScript, with dibs as it is published: where Node strips the types of the sources itself, that alone takes
 * some 40 MB of memory. Built once in a run.
 */
export async function builtHelper(name: string, cache: string): Promise<URL> {
  const folder = join(cache, "built");
  const built = join(folder, "bench", "helpers", `${name}.js`);
  if (!existsSync(built)) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "package.json"), `{ "type": "module" }`);
    // Dependencies are looked for from here upwards.
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
    await build({
      ...config,
      config: false,
      cwd: ROOT,
      root: ROOT,
      entry: [`bench/helpers/${name}.ts`],
      outDir: folder,
      clean: false,
      dts: false,
      logLevel: "error",
    });
  }
  return pathToFileURL(built);
}
