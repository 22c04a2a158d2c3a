// Builds and packs dibs, installs the tarball in an empty project as a user would, and there runs and type-checks
// programs (in project/): with both kinds of module, and each way in which TypeScript resolves a package. On a Node that
// is too old, every entry point must report that. At last it runs the recipes of the guide to bundlers and frameworks.

import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { checkContents } from "./contents.ts";
import { checkRefusals, installNode, OLD_NODES } from "./old-node.ts";
import { runRecipes } from "./recipes.ts";
import { PostgresServer, QUICK } from "../postgres/server.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "dibs-package-"));
const project = join(folder, "project");

try {
  const tarball = await step("build and pack", pack);
  await step("install", () => install(tarball));
  const postgres = await PostgresServer.start({ settings: QUICK });
  try {
    await step("run a program", () => run(project, process.execPath, ["main.mjs", postgres.url]));
  } finally {
    await postgres.remove();
  }
  for (const version of OLD_NODES) {
    const node = await step(`install Node ${version}`, () =>
      installNode(version, folder, (cwd, args) => run(cwd, "npm", args)),
    );
    await step(`refuse Node ${version}`, () => checkRefusals(node, version, project));
  }
  for (const options of ["node16", "nodenext", "bundler"].map(optionsFor)) {
    await step(`type-check a module with moduleResolution ${options.moduleResolution}`, () =>
      typeCheck("user.ts", { ...options, noEmit: true }),
    );
    await step(`compile CommonJS with moduleResolution ${options.moduleResolution}`, () =>
      typeCheck("common.cts", {
        ...options,
        ...(options.module === "preserve" && { module: "commonjs" }),
        outDir: ".",
      }),
    );
    await step("run CommonJS", runCommon);
  }
  await runRecipes(folder, tarball, step);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** `npm pack` builds first. What the build prints would be in the answer. */
function pack(): string {
  const answer = run(root, "npm", [
    "pack",
    "--json",
    "--foreground-scripts=false",
    "--pack-destination",
    folder,
  ]);
  const [packed] = Object.values(JSON.parse(answer) as Record<string, Packed>);
  if (packed === undefined) throw new Error(`npm pack answered ${answer}`);
  checkContents(
    root,
    packed.files.map((file) => file.path),
  );
  return join(folder, packed.filename);
}

interface Packed {
  filename: string;
  files: { path: string }[];
}

function install(tarball: string): void {
  cpSync(fileURLToPath(new URL("project", import.meta.url)), project, { recursive: true });
  writeFileSync(join(project, "package.json"), JSON.stringify({ private: true, type: "module" }));
  run(project, "npm", ["install", "--no-audit", "--no-fund", tarball]);
}

interface ModuleOptions {
  module: string;
  moduleResolution: string;
}

function optionsFor(moduleResolution: string): ModuleOptions {
  return { module: moduleResolution === "bundler" ? "preserve" : moduleResolution, moduleResolution };
}

function typeCheck(file: string, options: ModuleOptions & { noEmit?: boolean; outDir?: string }): void {
  const config = {
    compilerOptions: {
      target: "es2024",
      lib: ["esnext"],
      strict: true,
      exactOptionalPropertyTypes: true,
      // The published types are checked too, not only the user's file.
      skipLibCheck: false,
      types: ["node"],
      typeRoots: [join(root, "node_modules/@types")],
      ...options,
    },
    files: [file],
  };
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify(config));
  run(project, process.execPath, [join(root, "node_modules/typescript/bin/tsc")]);
}

function runCommon(): void {
  const said = run(project, process.execPath, ["common.cjs"]);
  if (said !== "sent to ada@example.com INVALID no\n")
    throw new Error(`the CommonJS program printed ${said}`);
  rmSync(join(project, "common.cjs"));
}

async function step<Result>(name: string, work: () => Result | Promise<Result>): Promise<Result> {
  const started = performance.now();
  const result = await work();
  console.log(`${name}: ok, ${((performance.now() - started) / 1000).toFixed(1)} s`);
  return result;
}

function run(cwd: string, command: string, args: string[]): string {
  try {
    // A program that does not end has left something open, which is a fault too.
    return execFileSync(command, args, { cwd, encoding: "utf8", timeout: 180_000, stdio: "pipe" });
  } catch (error) {
    const { stdout = "", stderr = "", code } = error as { stdout?: string; stderr?: string; code?: string };
    const said = `${stdout}${stderr}`.trimEnd();
    throw new Error(`${said}\n${command} ${args.join(" ")}: ${code ?? "failed"}`, { cause: error });
  }
}
