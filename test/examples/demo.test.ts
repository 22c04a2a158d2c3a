// A short run of the demo: it shows what it should, finds nothing lost or duplicated, and leaves nothing behind.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test, type TestContext } from "vitest";

const main = join(import.meta.dirname, "../../examples/demo/main.ts");

/** Concurrent tests clean up through their own context. */
function start(context: TestContext, ...args: string[]) {
  const folder = mkdtempSync(join(tmpdir(), "dibs-demo-test-"));
  const child = spawn(process.execPath, [main, ...args], {
    env: { ...process.env, TMPDIR: folder },
    stdio: ["ignore", "pipe", "pipe"],
  });
  context.onTestFinished(() => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (part: string) => (text += part));
  }
  const said = async (words: string): Promise<void> => {
    while (!text.includes(words)) await once(child.stdout, "data");
  };
  const ended = async () => {
    const [code] = (await once(child, "close")) as [number | null];
    return { code, text, left: readdirSync(folder) };
  };
  return { child, said, ended };
}

describe.concurrent("the demo", () => {
  test("the demo shows a crash, retries elsewhere and dead letters, and that nothing was lost", async (context) => {
    const { code, text, left } = await start(context, "--seconds", "12").ended();
    expect(text).toMatch(/worker bob was killed while holding [1-9]\d* tasks?/);
    expect(text).toMatch(/, which bob held, came back: \w+ has it/);
    expect(text).toMatch(/dan failed at image \d+; \w+ did it/);
    expect(text).toMatch(/riddle \d+ is a dead letter/);
    expect(text).toContain("lost 0, doubled 0: each job was looked up");
    expect(text).toContain(" 0 still to do");
    expect(code).toBe(0);
    expect(left).toEqual([]);
  });

  test("the demo ends cleanly on Ctrl-C", async (context) => {
    const { child, said, ended } = start(context);
    await said("worker bob starts");
    child.kill("SIGINT");
    const { code, text, left } = await ended();
    expect(text).toContain("lost 0, doubled 0");
    expect(code).toBe(130);
    expect(left).toEqual([]);
  });

  test("the demo prints its usage", async (context) => {
    const { code, text } = await start(context, "--seconds", "soon").ended();
    expect(text).toBe("Usage: npm run demo [-- --seconds N --url STORE], N from 5 to 3600\n");
    expect(code).toBe(2);
  });
});
