// ./dibs, the command of a clone, and the mistakes that people make on any command line.

import { execFile } from "node:child_process";
import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { EXIT } from "../../src/cli/exit.ts";
import { dibs, makeFolder } from "./run-dibs.ts";

const root = join(import.meta.dirname, "../..");

test("./dibs works in any folder, through a symbolic link, with the folder's own store", async () => {
  const folder = makeFolder();
  mkdirSync(join(folder, "bin"));
  symlinkSync(join(root, "dibs"), join(folder, "bin", "dibs"));
  const run = (...args: string[]) => promisify(execFile)(join(folder, "bin", "dibs"), args, { cwd: folder });
  expect((await run("add", "emails", "1")).stdout).toMatch(/^[0-9a-f-]{36}\n$/);
  expect((await dibs(folder, ["queues"])).stdout).toMatch(/\nemails +1 /);
});

describe("mistakes on the command line", () => {
  test.each([
    [["queus"], "queues"],
    [["tokens", "lst"], "ls"],
    [["add", "emails", "1", "--priorty", "2"], "--priority"],
  ])("dibs %j suggests %s", async (args, meant) => {
    const { code, stdout, stderr } = await dibs(makeFolder(), args);
    expect({ code, stdout }).toEqual({ code: EXIT.usage, stdout: "" });
    expect(stderr).toMatch(new RegExp(`Did you mean .*${meant}`));
  });

  test("a queue that does not exist is not found, and the nearest one is named", async () => {
    const folder = makeFolder();
    await dibs(folder, ["add", "emails", "1"]);
    expect(await dibs(folder, ["unhold", "emials"])).toEqual({
      code: EXIT["not found"],
      stdout: "",
      stderr: `dibs: There is no queue "emials". Did you mean "emails"? See dibs queues.\n`,
    });
  });
});
