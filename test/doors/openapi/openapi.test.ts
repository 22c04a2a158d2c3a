import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";
import { Validator } from "@seriousme/openapi-schema-validator";
import { expect, onTestFinished, test } from "vitest";
import { openPort } from "../../../src/api/open.ts";
import { startServer } from "../../server/start.ts";

const here = import.meta.dirname;
const modules = join(here, "../../../node_modules");
const run = promisify(execFile);

async function startAndDescribe(): Promise<{ url: string; text: string }> {
  const store = await openPort(":memory:", {});
  const server = await startServer(store);
  onTestFinished(async () => {
    await server.close();
    await store.close();
  });
  return { url: server.url, text: await (await fetch(`${server.url}/openapi.json`)).text() };
}

interface Operation {
  parameters?: { in: string; name: string; required: boolean }[];
  responses: Record<string, unknown>;
}

test("a third-party validator accepts /openapi.json as OpenAPI 3.1", async () => {
  const { text } = await startAndDescribe();
  const validator = new Validator();
  expect(await validator.validate(JSON.parse(text) as Record<string, unknown>)).toEqual({ valid: true });
  expect(validator.version).toBe("3.1");
});

test("every path of /openapi.json describes its parameters and its errors", async () => {
  const { text } = await startAndDescribe();
  const { paths } = JSON.parse(text) as { paths: Record<string, Record<string, Operation>> };
  for (const [path, operations] of Object.entries(paths)) {
    const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    for (const { parameters = [], responses } of Object.values(operations)) {
      const inPath = parameters.filter((parameter) => parameter.in === "path");
      expect(inPath.map(({ name }) => name)).toEqual(named);
      expect(inPath.every(({ required }) => required)).toBe(true);
      expect(responses["default"]).toMatchObject({
        content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
      });
    }
  }
});

test("a client generated from /openapi.json type-checks in a user's program, which then runs", async () => {
  const { url, text } = await startAndDescribe();
  // Below node_modules, where the program finds its packages.
  const project = mkdtempSync(join(modules, ".openapi-"));
  onTestFinished(() => rmSync(project, { recursive: true, force: true }));
  cpSync(join(here, "project"), project, { recursive: true });
  writeFileSync(join(project, "schema.ts"), await generate(text));
  const compilerOptions = {
    ...{ target: "es2024", lib: ["esnext", "dom"], module: "nodenext", types: ["node"] },
    ...{ strict: true, noUncheckedIndexedAccess: true, noEmit: true, allowImportingTsExtensions: true },
  };
  writeFileSync(join(project, "package.json"), JSON.stringify({ type: "module" }));
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["program.ts"] }));
  await passes(join(modules, "typescript/bin/tsc"), ["-p", project]);
  // Node does not strip types below node_modules.
  const program = stripTypeScriptTypes(readFileSync(join(project, "program.ts"), "utf8"));
  writeFileSync(join(project, "program.js"), program);
  await passes(join(project, "program.js"), [url]);
});

async function generate(text: string): Promise<string> {
  const running = run(process.execPath, [join(here, "generate.ts")], { maxBuffer: 16 * 1024 * 1024 });
  running.child.stdin!.end(text);
  return (await running).stdout;
}

/** The output of a failing program is the reason. */
async function passes(file: string, args: string[]): Promise<void> {
  const ended = await run(process.execPath, [file, ...args]).then(
    () => "passed",
    (error: unknown) => {
      const { stdout, stderr } = error as { stdout: string; stderr: string };
      return stdout + stderr;
    },
  );
  expect(ended).toBe("passed");
}
