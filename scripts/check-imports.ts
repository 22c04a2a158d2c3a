// Folders are the boundaries of this package: the table below says which may import which, and `npm run lint`
// fails if a file violates it. Tests beside the code (*.test.ts) may import what they like.

import { globSync, readFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { posix } from "node:path";
import { parseSync, Visitor } from "vite";

interface Row {
  /** What the files of this folder may import besides each other; `doors/*` stands for every folder in doors. */
  folders: string[] | "anything";
  /** Whether Node's own modules may be imported. */
  node: boolean;
  /** False: not even files of its own folder. */
  own?: false;
  /** npm packages that may be imported. */
  packages?: string[] | "anything";
  /** npm packages of which only types may be imported. */
  types?: string[];
}

/** A file's row is the most exact one: its own path before its folder, its folder before `engines/*`. */
const TABLE: Record<string, Row> = {
  core: { folders: [], node: false, types: ["@standard-schema/spec"] },
  // Every layer has files that run as a thread or a process.
  "core/process/own-files.ts": { folders: ["core"], node: true },
  // Cron and time zones: producers, brokers and doors check and compute them with the same code.
  "core/time/calendar.ts": { folders: [], node: false, packages: ["croner"] },
  engine: { folders: ["core"], node: true },
  "engines/*": { folders: ["core", "engine"], node: true },
  "engines/sqlite": { folders: ["core", "engine"], node: true, packages: ["better-sqlite3"] },
  "engines/postgres": { folders: ["core", "engine"], node: true, packages: ["pg"] },
  broker: { folders: ["core", "engine"], node: true },
  protocol: { folders: ["core"], node: false },
  "doors/*": { folders: ["core", "broker", "protocol"], node: true },
  "doors/http": {
    folders: ["core", "broker", "protocol", "dashboard"],
    node: true,
    packages: ["hono", "@hono/zod-openapi"],
  },
  "doors/native": { folders: ["core", "broker", "protocol"], node: true, packages: ["ws"] },
  client: { folders: ["core", "protocol"], node: true, packages: ["ws"] },
  // The port, over which api and worker are written, is core/port.ts.
  worker: { folders: ["core"], node: true },
  programs: { folders: ["core", "worker"], node: true },
  api: {
    folders: ["core", "worker", "pools", "metrics"],
    node: true,
    // Only types of the tracing API: trace.ts loads it if a tracer is registered.
    types: ["@standard-schema/spec", "@opentelemetry/api"],
  },
  metrics: { folders: ["core"], node: false },
  pools: { folders: ["core"], node: true },
  // What the dashboard's page shows, over a port. Its types are also the page's.
  dashboard: { folders: ["core", "pools"], node: true },
  // The decision is a pure function: a simulation must get from it what a real pool gets.
  "pools/decide.ts": { folders: ["core"], node: false, own: false },
  "pools/advise.ts": { folders: ["core"], node: false },
  "pools/simulate.ts": { folders: ["core"], node: false },
  // The one file of the library that turns an address into an engine behind a broker, or into a client.
  "api/open.ts": {
    folders: ["core", "worker", "pools", "metrics", "broker", "engine", "engines/*", "client"],
    node: true,
  },
  transfer: { folders: ["core", "engine"], node: true },
  // The file of it that turns an address into a store.
  "transfer/open.ts": { folders: ["core", "engine", "engines/*"], node: true },
  // Users' code would look the same: it uses what the package exports.
  demo: { folders: ["core", "api", "worker"], node: true },
  testing: { folders: ["core", "api", "worker"], node: true },
  server: { folders: "anything", node: true, packages: "anything" },
  cli: { folders: "anything", node: true, packages: "anything" },
  "index.ts": { folders: ["api", "core", "pools", "worker"], node: false },
};

/**
 * The folders inside `engines/postgres` and `engines/sqlite`, and which of their neighbours each may import values from.
 * Types may come from any of them: `Tx` names what it holds, and what it holds names `Tx`.
 */
const ENGINE_PARTS: Record<string, string[]> = {
  schema: [],
  connection: ["schema", "statements"],
  statements: ["connection"],
  transaction: ["schema", "connection", "statements", "line", "limits", "flows"],
  line: ["connection", "statements", "transaction", "limits", "flows"],
  limits: ["connection", "statements", "transaction", "line"],
  flows: ["connection", "statements", "transaction", "line", "verbs"],
  verbs: ["connection", "statements", "transaction", "line", "limits", "flows"],
  // PostgreSQL only: adds and acks inside the caller's transaction.
  caller: ["schema", "connection", "statements", "line", "limits", "flows", "verbs"],
  batch: ["schema", "connection", "statements", "transaction", "line", "limits", "flows", "verbs", "caller"],
  // PostgreSQL only: heartbeats from a separate thread.
  heartbeat: ["connection", "batch"],
  // SQLite only: the thread that runs the store.
  thread: ["connection", "batch"],
  // Reads and writes whole stores, and so may use everything.
  transfer: ["", "schema", "connection", "statements", "transaction", "line", "limits", "flows", "verbs"],
  // The engine itself.
  "": ["connection", "line", "caller", "batch", "heartbeat", "thread"],
};
const ENGINES_IN_PARTS = new Set(["engines/postgres", "engines/sqlite"]);

/** The page runs in browsers. Of the server it may know the types of its answers, and no code. */
const WEB = {
  packages: ["preact", "@preact/signals", "uplot", "@tanstack/virtual-core"],
  types: ["core", "protocol", "pools", "dashboard"],
};

/** The one that may import package.json, which the build puts into the bundle. */
const VERSION_FILE = "core/process/package-version.ts";

/** Files that are left out of the published package, so nothing in it may import them. */
const UNPUBLISHED = /\.test(-d)?\.ts$/;

export interface Violation {
  file: string;
  line: number;
  /** What is imported, as it is written there. */
  imported: string;
  problem: string;
}

/** @param file its path from the repository's root, `src/…` or `web/src/…`, with forward slashes */
export function findViolations(file: string, source: string): Violation[] {
  if (file.startsWith("web/")) return findInWeb(file, source);
  const path = posix.relative("src", file);
  if (/\.test(-d)?\.ts$/.test(path)) return [];
  const name = rowName(path);
  const imports = findImports(file, source);
  if (name === undefined) {
    return [{ file, line: 1, imported: "", problem: "has no row in the table of scripts/check-imports.ts" }];
  }
  return imports.flatMap(({ imported, line, typeOnly }) => {
    const problem = judge(path, name, imported, typeOnly);
    return problem === undefined ? [] : [{ file, line, imported, problem }];
  });
}

function findInWeb(file: string, source: string): Violation[] {
  if (UNPUBLISHED.test(file)) return [];
  return findImports(file, source).flatMap(({ imported, line, typeOnly }) => {
    const problem = judgeInWeb(file, imported, typeOnly);
    return problem === undefined ? [] : [{ file, line, imported, problem }];
  });
}

function judgeInWeb(file: string, imported: string, typeOnly: boolean): string | undefined {
  if (!imported.startsWith(".")) {
    const packageName = imported.split("/", imported.startsWith("@") ? 2 : 1).join("/");
    return WEB.packages.includes(packageName)
      ? undefined
      : `of npm packages, web may import ${list(WEB.packages)}`;
  }
  const target = posix.join(posix.dirname(file), imported);
  if (target.startsWith("web/src/"))
    return UNPUBLISHED.test(target) ? "it is not in the published package" : undefined;
  const folder = target.startsWith("src/") ? target.split("/")[1]! : target;
  if (!WEB.types.includes(folder)) return `web may import types of ${list(WEB.types)}, not ${folder}`;
  return typeOnly ? undefined : "web may import only types from it: write `import type`";
}

export function describeViolation({ file, line, imported, problem }: Violation): string {
  return imported === "" ? `${file} ${problem}` : `${file}:${line} imports "${imported}": ${problem}`;
}

function judge(path: string, name: string, imported: string, typeOnly: boolean): string | undefined {
  const row = TABLE[name] as Row;
  if (imported.startsWith(".")) return judgeFile(path, name, row, imported, typeOnly);
  if (isBuiltin(imported)) return row.node ? undefined : `${name} may not import Node's own modules`;
  const packageName = imported.split("/", imported.startsWith("@") ? 2 : 1).join("/");
  if (row.packages === "anything" || row.packages?.includes(packageName)) return undefined;
  if (row.types?.includes(packageName)) {
    return typeOnly ? undefined : `${name} may import only types from it: write \`import type\``;
  }
  const allowed = [...(row.packages ?? []), ...(row.types ?? []).map((each) => `types of ${each}`)];
  return `of npm packages, ${name} may import ${list(allowed)}`;
}

function judgeFile(
  path: string,
  name: string,
  row: Row,
  imported: string,
  typeOnly: boolean,
): string | undefined {
  const target = posix.join(posix.dirname(path), imported);
  if (path === VERSION_FILE && target === "../package.json") return undefined;
  if (target.startsWith("..")) return "it lies outside src and is not in the published package";
  if (!/\.(ts|json)$/.test(target)) return "Node runs the sources as they are, so the path must end in .ts";
  if (UNPUBLISHED.test(target) && !UNPUBLISHED.test(path)) return "it is not in the published package";
  if (row.folders === "anything") return undefined;
  const own = folderOf(path);
  const folder = folderOf(target);
  if (folder === own && ENGINES_IN_PARTS.has(own)) return typeOnly ? undefined : judgePart(own, path, target);
  if ((folder === own && row.own !== false) || row.folders.some((each) => matches(each, folder)))
    return undefined;
  return `${name} may import ${list(row.folders)}${own === "" || row.own === false ? "" : " and its own files"}, not ${folder || target}`;
}

/** Both files are in the same engine. */
function judgePart(engine: string, path: string, target: string): string | undefined {
  const own = partOf(engine, path);
  const part = partOf(engine, target);
  const allowed = ENGINE_PARTS[own];
  if (allowed === undefined) return `${engine}/${own} has no row in ENGINE_PARTS of scripts/check-imports.ts`;
  if (part === own || allowed.includes(part)) return undefined;
  return `${own || engine} may import values from ${list(allowed)}, not ${part || target}`;
}

/** The first folder below the engine's own; empty for the engine's own files. */
function partOf(engine: string, path: string): string {
  return posix.relative(engine, posix.dirname(path)).split("/")[0] ?? "";
}

function rowName(path: string): string | undefined {
  if (path in TABLE) return path;
  const parts = posix.dirname(path).split("/");
  for (let length = parts.length; length > 0; length--) {
    const folder = parts.slice(0, length).join("/");
    if (folder in TABLE) return folder;
    const pattern = [...parts.slice(0, length - 1), "*"].join("/");
    if (length > 1 && pattern in TABLE) return pattern;
  }
  return undefined;
}

/** The folder that the table speaks of: `engines/sqlite` for engines and doors, otherwise the first one. */
function folderOf(path: string): string {
  const [first = "", second = ""] = posix.dirname(path).replace(/^\.$/, "").split("/");
  return `${first}/*` in TABLE ? `${first}/${second}` : first;
}

function matches(pattern: string, folder: string): boolean {
  return pattern === folder || (pattern.endsWith("/*") && folder.startsWith(pattern.slice(0, -1)));
}

function list(names: string[]): string {
  return names.length === 0 ? "nothing" : names.join(", ");
}

interface Import {
  imported: string;
  line: number;
  typeOnly: boolean;
}

/** Every way in which a file names another: import, export from, import(), import types and thread addresses. */
function findImports(file: string, source: string): Import[] {
  const { program, errors } = parseSync(file, source, { lang: file.endsWith(".tsx") ? "tsx" : "ts" });
  if (errors[0] !== undefined) throw new SyntaxError(`${file}: ${errors[0].message}`);
  const found: Import[] = [];
  const note = (node: { type: string; value?: unknown; start: number } | null, typeOnly: boolean) => {
    if (node?.type !== "Literal" || typeof node.value !== "string") return;
    found.push({ imported: node.value, line: source.slice(0, node.start).split("\n").length, typeOnly });
  };
  /** new URL("./thread.ts", import.meta.url), or ownFile("./thread.ts", import.meta.url) */
  const noteAddress = (name: string, { callee, arguments: [path, base] }: Called) => {
    if (callee.type !== "Identifier" || callee.name !== name || path === undefined) return;
    if (base?.type === "MemberExpression" && base.object.type === "MetaProperty") note(path, false);
  };
  new Visitor({
    ImportDeclaration: (node) => note(node.source, importsOnlyTypes(node)),
    ExportNamedDeclaration: (node) => note(node.source, node.exportKind === "type"),
    ExportAllDeclaration: (node) => note(node.source, node.exportKind === "type"),
    ImportExpression: (node) => note(node.source, false),
    TSImportType: (node) => note(node.source, true),
    NewExpression: (node) => noteAddress("URL", node),
    CallExpression: (node) => noteAddress("ownFile", node),
  }).visit(program);
  return found;
}

/** `import type { A }`, or `import { type A, type B }`. */
function importsOnlyTypes({ importKind, specifiers }: ImportDeclaration): boolean {
  if (importKind === "type") return true;
  const areTypes = specifiers.map((each) => each.type === "ImportSpecifier" && each.importKind === "type");
  return areTypes.length > 0 && areTypes.every(Boolean);
}

type Called = Parameters<NonNullable<VisitorObject["NewExpression" | "CallExpression"]>>[0];
type ImportDeclaration = Parameters<NonNullable<VisitorObject["ImportDeclaration"]>>[0];
type VisitorObject = ConstructorParameters<typeof Visitor>[0];

if (import.meta.main) {
  const files = globSync(["src/**/*.ts", "web/src/**/*.{ts,tsx}"]).map((file) => file.replaceAll("\\", "/"));
  const violations = files.toSorted().flatMap((file) => findViolations(file, readFileSync(file, "utf8")));
  for (const violation of violations) console.error(describeViolation(violation));
  if (violations.length > 0) {
    console.error(
      `\n${violations.length} imports step over a folder's boundary: see scripts/check-imports.ts`,
    );
    process.exitCode = 1;
  } else {
    console.log(`Imports of ${files.length} files keep to the table.`);
  }
}
