import { fileURLToPath, pathToFileURL } from "node:url";
import { defineConfig, type Rolldown } from "tsdown";

/**
 * The sources name a thread's file as it is when they run unbuilt: `new URL("./thread.ts", import.meta.url)`.
 * This builds that file too, beside its importer, and gives it its built name there.
 */
const threads: Rolldown.Plugin = {
  name: "threads",
  transform(code, importer) {
    return code.replaceAll(
      /new URL\(\s*"(\.{1,2}\/[^"]+)\.ts",\s*import\.meta\.url,?\s*\)/g,
      (_, path: string) => {
        this.emitFile({ type: "chunk", id: fileURLToPath(new URL(`${path}.ts`, pathToFileURL(importer))) });
        return `new URL("${path}.js", import.meta.url)`;
      },
    );
  },
};

export default defineConfig({
  // What these do not reach, the tests, is not in the package.
  entry: ["src/index.ts", "src/testing/index.ts", "src/cli/main.ts"],
  root: "src",
  format: "esm",
  fixedExtension: false,
  platform: "node",
  target: "node22.14",
  // A file for each source file, so that a thread's file lies where its importer looks for it.
  unbundle: true,
  dts: true,
  plugins: [threads],
});
