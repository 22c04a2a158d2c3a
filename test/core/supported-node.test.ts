import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { checkNode } from "../../src/core/process/supported-node.ts";
import { isOlder } from "../../src/core/process/version.ts";

test("versions are compared by number", () => {
  expect(isOlder("3.51.2", "3.51.3")).toBe(true);
  expect(isOlder("3.51.3", "3.51.3")).toBe(false);
  expect(isOlder("3.100.0", "3.51.3")).toBe(false);
  expect(isOlder("22.9.0", "22.14.0")).toBe(true);
});

test("a Node below 22.14 is UNSUPPORTED", () => {
  for (const version of ["18.20.8", "20.20.2", "22.13.1"]) {
    expect(() => checkNode(version)).toThrow(expect.objectContaining({ code: "UNSUPPORTED" }));
  }
  for (const version of ["22.14.0", "22.20.1", "24.1.0", "100.0.0"]) checkNode(version);
});

test("package.json requires the same Node version as the check", () => {
  const { engines } = JSON.parse(readFileSync("package.json", "utf8")) as { engines: { node: string } };
  expect(engines.node).toBe(">=22.14");
});

// `npm run test:package` tests what this order does on an old Node.
test.each([
  "src/index.ts",
  "src/testing/index.ts",
  "src/server/mount-dashboard.ts",
  "src/engines/sqlite/thread/thread.ts",
  "src/engines/postgres/heartbeat/heartbeat-thread.ts",
])("%s checks Node's version before it imports anything else", (file) => {
  const [first] = readFileSync(file, "utf8").match(/^(import|export) .*$/m)!;
  expect(first).toMatch(/^import "[./]+\/core\/process\/supported-node\.ts";$/);
});

test("the shell checks the Node version before it imports anything that an old Node cannot load", () => {
  const imports = readFileSync("src/cli/main.ts", "utf8").match(/\bimport\b.*"(.*)"/g);
  expect(imports).toEqual([
    'import { EXIT } from "./exit.ts"',
    'import("../core/process/supported-node.ts"',
    'import("./program.ts"',
  ]);
});
