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

test("flags override the environment, which overrides the file, which overrides the defaults", () => {
  const file = write('{ "port": 1, "host": "::1", "drain": "5s", "allowHost": ["a"] }');
  const env = { DIBS_PORT: "2", DIBS_HOST: "localhost", DIBS_ALLOW_ORIGIN: "http://a, http://b" };
  const { config, sources } = resolveConfig({ port: "3" }, env, file);
  expect(config).toMatchObject({
    ...{ port: 3, host: "localhost", drain: 5_000, allowHost: ["a"], url: "./dibs.db" },
    ...{ allowOrigin: ["http://a", "http://b"], letAnyoneIn: false },
  });
  expect(sources).toMatchObject({ port: "--port", host: "DIBS_HOST", drain: file, url: "default" });
});

test("secrets may be in their own files, and passwords are not printed", () => {
  const env = { DIBS_URL_FILE: write("postgres://ada:s3cret@db/dibs?password=also\n") };
  const resolved = resolveConfig({}, env);
  expect(resolved.config.url).toBe("postgres://ada:s3cret@db/dibs?password=also");
  const printed = printConfig(resolved);
  expect(printed).toContain("DIBS_URL_FILE");
  expect(printed).not.toMatch(/s3cret|also/);
});

test.each([
  "postgres://ada:s3#cret@db/dibs",
  "postgres://ada:s3cret@one:5432,two:5432/dibs",
  "postgres://ada:s3/cr@et@db:x/dibs?password=s3cret",
])("the password of the malformed address %s is not printed", (url) => {
  const printed = printConfig(resolveConfig({ url }, {}));
  expect(printed).toContain("postgres://***@");
  expect(printed).not.toMatch(/s3|cr/);
});

test("setting a variable and its _FILE variant is refused, because it is unclear which one is intended", () => {
  const env = { DIBS_URL: "/data/work.db", DIBS_URL_FILE: write("postgres://db/dibs") };
  expect(() => resolveConfig({}, env)).toThrow(/DIBS_URL and DIBS_URL_FILE/);
  expect(resolveConfig({ url: "here.db" }, env).config.url).toBe("here.db");
});

test.each([
  [{ port: "65536" }, {}, "--port"],
  [{ maxConnections: "0" }, {}, "--max-connections"],
  [{ maxFrame: "10" }, {}, "--max-frame"],
  [{ beat: "0" }, {}, "--beat"],
  [{ logLevel: "loud" }, {}, "--log-level is one of trace, debug"],
  [{}, { DIBS_PORT: "tcp://10.0.0.7:7411" }, "enableServiceLinks: false"],
  [{ port: "http" }, {}, "--port"],
  [{}, { DIBS_PORT: "-1" }, "DIBS_PORT"],
  [{}, { DIBS_DRAIN: "soon" }, "DIBS_DRAIN"],
  [{}, { DIBS_LET_ANYONE_IN: "perhaps" }, "DIBS_LET_ANYONE_IN"],
  [{}, { DIBS_URL_FILE: "/there/is/no/such/file" }, "DIBS_URL_FILE"],
])("an invalid setting is refused, and the error names its source", (flags, env, word) => {
  expect(() => resolveConfig(flags, env)).toThrow(word);
});

test.each(["no JSON", "[]", '{ "prot": 1 }', '{ "port": "x" }'])(
  "a configuration file with %j is refused",
  (content) => {
    expect(() => resolveConfig({}, {}, write(content))).toThrow(expect.objectContaining({ code: "INVALID" }));
  },
);
