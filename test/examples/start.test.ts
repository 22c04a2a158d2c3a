// npm start: a server on a file that prints its address and what to try next, and the demo next to it on request.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test, type TestContext } from "vitest";
import { open } from "../../src/index.ts";
import { until } from "../e2e/harness/stage.ts";

const root = join(import.meta.dirname, "../..");

/** In its own folder, as a user's clone would be. */
function start(context: TestContext, ...flags: string[]) {
  const folder = mkdtempSync(join(tmpdir(), "dibs-start-"));
  const child = spawn(process.execPath, [join(root, "scripts/start.ts"), "--port", "0", ...flags], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
  });
  context.onTestFinished(() => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });
  const heard = { out: "", errors: "" };
  child.stdout.setEncoding("utf8").on("data", (part: string) => (heard.out += part));
  child.stderr.setEncoding("utf8").on("data", (part: string) => (heard.errors += part));
  const said = async (words: RegExp): Promise<RegExpExecArray> => {
    while (!words.test(heard.out)) await once(child.stdout, "data");
    return words.exec(heard.out)!;
  };
  const stop = async (): Promise<number | null> => {
    child.kill("SIGTERM");
    const [code] = (await once(child, "close")) as [number | null];
    return code;
  };
  return { folder, heard, said, stop };
}

describe.concurrent("npm start", () => {
  test("npm start runs scripts/start.ts", () => {
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      scripts: Record<string, string>;
    };
    expect(scripts["start"]).toMatch(/ node scripts\/start\.ts$/);
  });

  test("npm start serves a file, and the lines that it prints to try next work", async (context) => {
    const { folder, heard, said, stop } = start(context);
    const [, url, tries] = await said(/^dibs listens on (\S+)\nThree lines to try next:\n((?: {2}.*\n){3})/);
    expect(existsSync(join(folder, "dibs.db"))).toBe(true);
    const shown: string[] = [];
    for (const line of tries!.trim().split("\n")) {
      const { stdout } = await promisify(execFile)("bash", ["-c", line.trim()], { cwd: root });
      shown.push(stdout);
    }
    expect(shown[0]).toMatch(/^[0-9a-f-]{36}\n$/);
    expect(shown[1]).toMatch(/\nemails +1 /);
    expect(shown[2]).toContain("dibs over HTTP");
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(await stop()).toBe(0);
    expect(heard.errors).toBe("");
  });

  test("npm start runs the demo on request, as clients of the server", async (context) => {
    const { heard, said, stop } = start(context, "--demo");
    const [, url] = await said(/^dibs listens on (\S+)/);
    await said(/The demo runs/);
    const dibs = await open(url);
    await until("an email is sent", async () => (await dibs.queue("emails").stats()).depth.done > 0);
    await dibs.close();
    expect(await stop()).toBe(0);
    expect(heard.errors).toBe("");
  });
});
