import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { printConfig, resolveConfig } from "../../src/server/config.ts";

function write(content: string): string {
  const folder = mkdtempSync(join(tmpdir(), "dibs-config-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "dibs.json");
  writeFileSync(path, content);
  return path;
}

test("flags come before the environment, that before the file, and that before what holds unless set", () => {
  const file = write('{ "port": 1, "host": "::1", "drain": "5s", "allowHost": ["a"] }');
  const env = { DIBS_PORT: "2", DIBS_HOST: "localhost", DIBS_ALLOW_ORIGIN: "http://a, http://b" };
  const { config, sources } = resolveConfig({ port: "3" }, env, file);
  expect(config).toMatchObject({
    ...{ port: 3, host: "localhost", drain: 5_000, allowHost: ["a"], url: "./dibs.db" },
    ...{ allowOrigin: ["http://a", "http://b"], letAnyoneIn: false },
  });
  expect(sources).toMatchObject({ port: "--port", host: "DIBS_HOST", drain: file, url: "unless set" });
});

test("secrets may be in files of their own, and passwords are not printed", () => {
  const env = { DIBS_URL_FILE: write("postgres://ada:s3cret@db/dibs?password=also\n") };
  const resolved = resolveConfig({}, env);
  expect(resolved.config.url).toBe("postgres://ada:s3cret@db/dibs?password=also");
  const printed = printConfig(resolved);
  expect(printed).toContain("DIBS_URL_FILE");
  expect(printed).not.toMatch(/s3cret|also/);
});

test.each([
  [{ port: "http" }, {}, "--port"],
  [{}, { DIBS_PORT: "-1" }, "DIBS_PORT"],
  [{}, { DIBS_DRAIN: "soon" }, "DIBS_DRAIN"],
  [{}, { DIBS_LET_ANYONE_IN: "perhaps" }, "DIBS_LET_ANYONE_IN"],
  [{}, { DIBS_URL_FILE: "/there/is/no/such/file" }, "DIBS_URL_FILE"],
])("what cannot be meant is refused, and its place named", (flags, env, word) => {
  expect(() => resolveConfig(flags, env)).toThrow(word);
});

test.each(["no JSON", "[]", '{ "prot": 1 }', '{ "port": "x" }'])(
  "a file that says %j is refused",
  (content) => {
    expect(() => resolveConfig({}, {}, write(content))).toThrow(expect.objectContaining({ code: "INVALID" }));
  },
);
