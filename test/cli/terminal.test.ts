// The shell in a real terminal: colours, questions, progress, dibs top, and Ctrl-C.

import { execFile } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { EXIT } from "../../src/cli/exit.ts";
import { type Dibs, open } from "../../src/index.ts";
import { until } from "../e2e/harness/stage.ts";
import { dibs, inTerminal, MAIN, makeFolder, serve } from "./run-dibs.ts";

async function storeIn(folder: string): Promise<Dibs> {
  const store = await open(join(folder, "dibs.db"));
  onTestFinished(() => store.close());
  return store;
}

const ESCAPES = "\u001b[";
const ENTERED = "\u001b[?1049h";
const LEFT = "\u001b[?25h\u001b[?1049l";

test("tables have colours on a terminal, and none with NO_COLOR", async () => {
  const folder = makeFolder();
  await (await storeIn(folder)).queue("emails").add(1);
  const coloured = inTerminal(folder, ["queues"]);
  expect(await coloured.end()).toBe(EXIT.done);
  expect(coloured.shown).toContain(ESCAPES);
  const plain = inTerminal(folder, ["queues"], { NO_COLOR: "1" });
  expect(await plain.end()).toBe(EXIT.done);
  expect(plain.shown).not.toContain(ESCAPES);
  expect(plain.shown).toMatch(/QUEUE +READY.*\r\nemails +1 /);
});

describe("a verb that destroys something", () => {
  test("a destructive verb asks on a terminal, and changes nothing if the answer is no", async () => {
    const folder = makeFolder();
    const store = await storeIn(folder);
    await store.queue("emails").add(1);
    const asked = inTerminal(folder, ["queue", "purge", "emails"]);
    await asked.sees(/Purge 1 task of emails\?/);
    asked.terminal.write("n");
    expect(await asked.end()).toBe(EXIT.declined);
    expect(asked.shown).toContain("Nothing was changed.");
    expect((await store.queue("emails").stats()).depth.ready).toBe(1);
  });

  test("a destructive verb asks on a terminal, and executes if the answer is yes", async () => {
    const folder = makeFolder();
    const store = await storeIn(folder);
    await store.queue("emails").add(1);
    const asked = inTerminal(folder, ["queue", "purge", "emails"]);
    await asked.sees(/Purge 1 task of emails\?/);
    asked.terminal.write("y");
    expect(await asked.end()).toBe(EXIT.done);
    expect(asked.shown).toContain("purged 1 task");
    expect((await store.queue("emails").stats()).depth.ready).toBe(0);
  });
});

test("dibs add shows how many tasks it has added and how fast, instead of their ids", async () => {
  const folder = makeFolder();
  writeFileSync(join(folder, "tasks.jsonl"), "1\n".repeat(1_200));
  const adding = inTerminal(folder, ["add", "numbers", "--file", "tasks.jsonl"]);
  expect(await adding.end()).toBe(EXIT.done);
  expect(adding.shown).toMatch(/1,200 tasks added to numbers, [\d,]+\/s in [\d.]+m?s\./);
  expect(adding.shown).not.toMatch(/[0-9a-f]{8}-[0-9a-f]{4}-7/);
});

describe("dibs top", () => {
  test("dibs top shows queues and workers, opens and pauses a queue, and leaves the terminal as it was", async () => {
    const folder = makeFolder();
    const store = await storeIn(folder);
    await store.queue("emails").addMany([{ data: 1 }, { data: 2 }, { data: 3 }]);
    await store.queue("zzz").add(1);
    let finish: (() => void) | undefined;
    const handled = new Promise<void>((resolve) => (finish = resolve));
    const worker = store.queue("emails").work(async () => handled, { name: "mailer" });
    onTestFinished(() => {
      finish?.();
      return worker.stop();
    });
    await until("a task runs", async () => (await store.queue("emails").stats()).depth.claimed > 0);
    const top = inTerminal(folder, ["top"], { NO_COLOR: "1" });
    expect((await top.sees(/▸ (\w+)/))[1]).toBe("emails");
    await top.sees(/emails +▣■■·+ +2 +1 /);
    await top.sees(/mailer +1 +1 +emails +emails [0-9a-f]{8} /);
    top.terminal.write("\u001b[B");
    await top.sees(/▸ zzz/);
    top.terminal.write("\u001b[A");
    await top.sees(/▸ emails/, top.shown.lastIndexOf("▸ zzz"));
    top.terminal.write("\r");
    await top.sees(/dibs top: emails[\s\S]*RUNNING/);
    top.terminal.write("p");
    await top.sees(/emails is paused\./);
    expect((await store.queue("emails").stats()).paused).toBe(true);
    top.terminal.write("q");
    expect(await top.end()).toBe(EXIT.done);
    expect(top.shown.startsWith(ENTERED)).toBe(true);
    expect(top.shown.trimEnd().endsWith(LEFT)).toBe(true);
  });

  test.each([
    ["Ctrl-C", (pid: number, type: (keys: string) => void) => (type("\u0003"), pid)],
    ["SIGTERM", (pid: number) => process.kill(pid, "SIGTERM")],
    ["SIGHUP", (pid: number) => process.kill(pid, "SIGHUP")],
  ])("%s ends it, and leaves the terminal as it was", async (_, stop) => {
    const folder = makeFolder();
    await (await storeIn(folder)).queue("emails").add(1);
    const top = inTerminal(folder, ["top"]);
    await top.sees(/emails/);
    stop(top.terminal.pid, (keys) => top.terminal.write(keys));
    expect(await top.end()).toBe(EXIT.done);
    expect(top.shown.trimEnd().endsWith(LEFT)).toBe(true);
  });

  test("dibs top redraws at most four times a second while keys and tasks come much faster", async () => {
    const folder = makeFolder();
    const store = await storeIn(folder);
    await store.queue("emails").add(1);
    const top = inTerminal(folder, ["top", "--interval", "250ms"]);
    await top.sees(/emails/);
    const from = top.shown.length;
    const started = performance.now();
    while (performance.now() - started < 1_500) {
      top.terminal.write("jk".repeat(50));
      await store.queue("emails").addMany(Array.from({ length: 50 }, () => ({ data: 1 })));
    }
    const seconds = (performance.now() - started) / 1_000;
    const redraws = top.shown.slice(from).split("\u001b[H").length - 1;
    expect(redraws).toBeGreaterThan(0);
    expect(redraws).toBeLessThanOrEqual(Math.ceil(seconds * 4) + 1);
    top.terminal.write("q");
    expect(await top.end()).toBe(EXIT.done);
  });

  test("dibs top without a terminal prints a plain table once, or a snapshot with --json", async () => {
    const folder = makeFolder();
    await (await storeIn(folder)).queue("emails").add(1);
    const plain = await dibs(folder, ["top"]);
    expect(plain.stdout).toMatch(/^QUEUE +LINE .*\nemails +■·+ +1 +0 /);
    const { stdout } = await dibs(folder, ["top", "--json"]);
    expect(JSON.parse(stdout)).toEqual({
      ...{ at: expect.any(String), queues: [expect.objectContaining({ queue: "emails" })] },
      ...{ workers: [], running: [] },
    });
  });
});

describe("Ctrl-C", () => {
  test("the first Ctrl-C drains dibs serve, the second one ends it", async () => {
    const folder = makeFolder();
    const { child, url } = await serve(folder, "--drain", "60s");
    const client = await open(url);
    onTestFinished(() => client.close());
    await client.queue("emails").add(1);
    let finish: (() => void) | undefined;
    const handled = new Promise<void>((resolve) => (finish = resolve));
    let isStarted = false;
    const worker = client.queue("emails").work(() => ((isStarted = true), handled));
    onTestFinished(() => {
      finish?.();
      return worker.stop();
    });
    await until("the task runs", async () => isStarted);
    const logged: string[] = [];
    child.stderr.setEncoding("utf8").on("data", (part: string) => logged.push(part));
    child.kill("SIGINT");
    await until("it drains", async () => /drain|stopp/i.test(logged.join("")));
    expect(child.exitCode).toBeNull();
    child.kill("SIGINT");
    expect(await once(child, "close")).toEqual([EXIT.interrupted, null]);
  });
});

test("a command whose reader stops early ends quietly, as in dibs … | head", async () => {
  const folder = makeFolder();
  const store = await storeIn(folder);
  await store.queue("emails").addMany(Array.from({ length: 1_900 }, () => ({ data: "x".repeat(200) })));
  for (const claim of await store.queue("emails").claim({ max: 1_000 })) void claim.reject(new Error("no"));
  await until("all are dead", async () => (await store.queue("emails").stats()).depth.dead === 1_000);
  const run = (command: string) =>
    promisify(execFile)(
      "bash",
      ["-c", `set -o pipefail; ${process.execPath} ${MAIN} ${command} | head -n 1`],
      {
        cwd: folder,
      },
    );
  const listed = await run("tasks emails --limit 1000");
  expect(listed).toEqual({ stdout: expect.stringMatching(/^ID /), stderr: "" });
  const exported = await run("dead export emails");
  expect(exported).toEqual({ stdout: expect.stringMatching(/^\{"id":/), stderr: "" });
});

test("the first Ctrl-C lets dibs add finish what it has read, also on a terminal", async () => {
  const folder = makeFolder();
  const adding = inTerminal(folder, ["add", "numbers", "-"]);
  adding.terminal.write("1\n");
  await until("the line is added", async () => (await dibs(folder, ["queues"])).stdout.includes("numbers"));
  adding.terminal.write("\u0003");
  expect(await adding.end()).toBe(EXIT.interrupted);
  expect(adding.shown).toContain("Stopped after 1 task.");
});

test("Ctrl-C ends dibs simulate --record after the rates that it has printed", async () => {
  const folder = makeFolder();
  await (await storeIn(folder)).queue("emails").add(1);
  const recording = inTerminal(folder, ["simulate", "--record", "emails"]);
  await recording.sees(/"at":0,"rate":/);
  recording.terminal.write("\u0003");
  expect(await recording.end()).toBe(EXIT.done);
  expect(recording.shown.match(/"rate":/g)).toHaveLength(1);
});
