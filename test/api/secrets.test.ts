// No message of dibs contains the password of an address: errors with their causes, logs, the configuration.

import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { open, type OpenOptions } from "../../src/index.ts";
import { printConfig, resolveConfig } from "../../src/server/config.ts";
import { serve } from "../../src/server/serve.ts";
import { tokensPathOf } from "../../src/server/tokens.ts";
import { openTransfer } from "../../src/transfer/open.ts";
import { addressesWith, CANARY } from "../core/secret-addresses.ts";
import { sharedServer } from "../postgres/shared.ts";
import { bareEnvironment } from "../run/compile-cache.ts";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "dibs-secrets-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Everything in an error, including its causes and their fields, as a log may print it. */
async function told(work: () => unknown): Promise<string> {
  try {
    await work();
  } catch (error) {
    return inspect(error, { depth: 10, showHidden: true, maxStringLength: null });
  }
  throw new Error("It was not refused.");
}

const OPTIONS: OpenOptions[] = [
  {},
  { token: "t" },
  { schema: "dibs" },
  { listen: false },
  { create: false },
  { schema: "no schema" },
  { durability: "none" as never },
  { poll: "1s" },
];

describe("no error contains a password", () => {
  // An address that is mistaken for a file path would create the file here.
  afterAll(() => expect(readdirSync(".").filter((name) => name.includes(CANARY))).toEqual([]));

  test.each(OPTIONS)("open(url, %j) shows no password", async (options) => {
    await Promise.all(
      addressesWith(CANARY).map(async (address) =>
        expect(await told(() => open(address, options))).not.toContain(CANARY),
      ),
    );
  });

  test("open() with DIBS_URL and opening a store for a transfer show no password", async () => {
    onTestFinished(() => void delete process.env["DIBS_URL"]);
    for (const address of addressesWith(CANARY).filter((each) => !each.includes("\0"))) {
      process.env["DIBS_URL"] = address;
      expect(await told(() => open())).not.toContain(CANARY);
      expect(await told(() => openTransfer(address))).not.toContain(CANARY);
    }
  });

  test("serve and --print-config show no password", async () => {
    for (const url of addressesWith(CANARY)) {
      const resolved = resolveConfig({ url, logLevel: "silent" }, {});
      expect(printConfig(resolved)).not.toContain(CANARY);
      expect(await told(() => serve(resolved.config))).not.toContain(CANARY);
    }
  });

  test("commands for tokens show no password", async () => {
    for (const url of addressesWith(CANARY)) {
      const look = await told(() => {
        tokensPathOf({ url, tokens: null });
        throw new Error("accepted");
      });
      expect(look).not.toContain(CANARY);
    }
  });

  test("a PostgreSQL server that refuses the user, or has no such database, shows no password", async () => {
    const { hostname, port } = new URL(await sharedServer());
    const url = `postgres://nobody_known:${CANARY}@${hostname}:${port}/no_such_database?sslpassword=${CANARY}`;
    expect(await told(() => open(url))).not.toContain(CANARY);
  });

  test("a server that closes the connection shows no password", async () => {
    const silent = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
    onTestFinished(() => void silent.close());
    await new Promise((resolve) => silent.once("listening", resolve));
    const { port } = silent.address() as { port: number };
    for (const scheme of ["postgres", "http"])
      expect(await told(() => open(`${scheme}://u:${CANARY}@127.0.0.1:${port}`))).not.toContain(CANARY);
  });
});

test("the error about a configuration file that is not JSON does not quote it", async () => {
  const path = join(makeFolder(), "dibs.json");
  for (const text of [`{ "url": "postgres://u:${CANARY}@h" x`, `"${CANARY}`, CANARY, `{"${CANARY}": x}`]) {
    writeFileSync(path, text);
    expect(await told(() => resolveConfig({}, {}, path))).not.toContain(CANARY);
  }
});

test("a secret given as the name of its file is not shown", async () => {
  const variables = { DIBS_URL_FILE: `postgres://u:${CANARY}@h` };
  expect(await told(() => resolveConfig({}, variables))).not.toContain(CANARY);
  process.env["DIBS_TOKEN_FILE"] = CANARY;
  onTestFinished(() => void delete process.env["DIBS_TOKEN_FILE"]);
  expect(await told(() => open("http://127.0.0.1:9"))).not.toContain(CANARY);
});

describe("the shell shows no password", () => {
  const bad = `postgres://u:${CANARY}@127.0.0.1:x/db`;
  test.each([
    [["add", "q", "1"], ` postgres://u:${CANARY}@127.0.0.1/db`],
    [["queues"], `http://u:${CANARY}@127.0.0.1:9`],
    [["queues"], `u:${CANARY}@127.0.0.1/db`],
    [["tokens", "ls"], `http://u:${CANARY}@127.0.0.1`],
    [["serve"], `http://u:${CANARY}@127.0.0.1`],
    [["serve"], bad],
    [["serve", "--print-config"], ` postgres://u:${CANARY}@127.0.0.1/db`],
    [["serve", `--ur=${bad}`], undefined],
    [[bad], undefined],
  ])("%j with DIBS_URL=%s shows no password", async (args, url) => {
    const env = { ...bareEnvironment(), ...(url !== undefined && { DIBS_URL: url }) };
    const cwd = makeFolder();
    const said = await new Promise<string>((resolve) =>
      execFile(process.execPath, [MAIN, ...args], { cwd, env }, (_, stdout, stderr) =>
        resolve(stdout + stderr),
      ),
    );
    expect(said).not.toBe("");
    expect(said).not.toContain(CANARY);
    expect(readdirSync(cwd)).toEqual([]);
  });
});
