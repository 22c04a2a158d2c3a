// Builds the dashboard's page. `npm run build` puts it into dist/web, which is published. From a clone, `npm start`
// and the tests build it once for each state of its sources, into a folder that git ignores.

import { createHash } from "node:crypto";
import {
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import { build } from "vite";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const CACHE = join(ROOT, "node_modules/.cache/dibs-web");
/** Files that a server sends compressed. */
const TEXT = /\.(html|js|css|svg)$/;

/** @returns the folder with the page as of now, built if it has not been yet */
export async function buildWeb(): Promise<string> {
  const folder = join(CACHE, hashOfSources());
  if (existsSync(folder)) return folder;
  // Built beside it and moved: another process may build the same at this moment.
  const beside = `${folder}.${process.pid}`;
  await buildInto(beside);
  try {
    renameSync(beside, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error;
    rmSync(beside, { recursive: true, force: true });
  }
  removeOthers(folder);
  return folder;
}

export async function buildInto(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await build({
    configFile: join(ROOT, "web/vite.config.ts"),
    logLevel: "warn",
    build: { outDir: folder, emptyOutDir: true },
  });
  await Promise.all(
    filesOf(folder)
      .filter((file) => TEXT.test(file))
      .map(compress),
  );
}

/** Beside each text, so that no server has to compress it for each reader. */
async function compress(file: string): Promise<void> {
  const text = readFileSync(file);
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: text.length };
  writeFileSync(`${file}.br`, await promisify(brotliCompress)(text, { params }));
  writeFileSync(`${file}.gz`, await promisify(gzip)(text, { level: 9 }));
}

function hashOfSources(): string {
  const hash = createHash("sha256");
  for (const file of [
    ...filesOf(join(ROOT, "web")),
    join(ROOT, "package-lock.json"),
    fileURLToPath(import.meta.url),
  ])
    hash.update(file.slice(ROOT.length)).update("\0").update(readFileSync(file)).update("\0");
  return hash.digest("hex").slice(0, 16);
}

function filesOf(folder: string): string[] {
  return globSync("**/*", { cwd: folder })
    .toSorted()
    .map((file) => join(folder, file))
    .filter((file) => statSync(file).isFile() && !file.endsWith(".test.ts"));
}

/** Old states of the page that no running server can need any more. */
function removeOthers(current: string): void {
  const dayAgo = Date.now() - 86_400_000;
  for (const name of globSync("*", { cwd: CACHE })) {
    const folder = join(CACHE, name);
    if (folder !== current && statSync(folder, { throwIfNoEntry: false })!.mtimeMs < dayAgo)
      rmSync(folder, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  const folder = process.argv[2] ?? "dist/web";
  await buildInto(join(ROOT, folder));
  console.log(`The page is in ${folder}.`);
}
