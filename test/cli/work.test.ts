// `dibs work` as a person uses it: programs in several languages, drones, signals, and what is left behind when the
// supervisor is killed.

import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, onTestFinished, test } from "vitest";
import { EXIT } from "../../src/cli/exit.ts";
import { type Dibs, open } from "../../src/index.ts";
import { freshSchema } from "../postgres/shared.ts";
import { isAlive } from "../programs/kit.ts";
import { dibs, makeFolder, serve, start } from "./run-dibs.ts";

const programs = join(import.meta.dirname, "../../examples/programs");

async function openIn(folder: string): Promise<Dibs> {
  const store = await open(join(folder, "dibs.db"));
  onTestFinished(() => store.close());
  return store;
}

describe("a program as a worker", () => {
  test.each([
    ["bash", ["bash", join(programs, "worker.sh")]],
    ["python", ["python3", join(programs, "worker.py")]],
    ["node", [process.execPath, join(programs, "worker.mjs")]],
  ])("the example in %s handles a task, and rejects a bad one", async (by, command) => {
    const folder = makeFolder();
    const store = await openIn(folder);
    const good = await store.queue("orders").add({ order: 7 });
    const work = ["work", "orders", "--once", "--", ...command];
    expect(await dibs(folder, work)).toMatchObject({ code: EXIT.done });
    expect(await good.result()).toEqual({ order: 7, shipped: true, by });
    const bad = await store.queue("orders").add({});
    expect(await dibs(folder, work)).toMatchObject({ code: EXIT["task failed"] });
    expect(await bad.info()).toMatchObject({ state: "dead" });
    expect(await bad.history()).toMatchObject([
      { error: { message: expect.stringContaining("exit code 65: the payload has no order") } },
    ]);
  });

  test("dibs task extends, reports progress, keeps steps and adds, from inside a program", async () => {
    const folder = makeFolder();
    const store = await openIn(folder);
    const task = await store.queue("work", { backoff: { type: "fixed", delay: 0 } }).add(1);
    const main = join(import.meta.dirname, "../../src/cli/main.ts");
    writeFileSync(
      join(folder, "program.sh"),
      `dibs() { "${process.execPath}" "${main}" "$@"; }
       set -e
       dibs task extend 10m
       dibs task progress 0.5 halfway
       plan=$(dibs task step plan -- echo "made by attempt $DIBS_ATTEMPT")
       dibs task add next '{"n": 1}' --priority 3
       [ "$DIBS_ATTEMPT" = 2 ] || exit 1
       echo "$plan"`,
    );
    const work = ["work", "work", "--once", "--", "sh", "program.sh"];
    expect(await dibs(folder, work)).toMatchObject({ code: EXIT["task failed"] });
    expect(await dibs(folder, work)).toMatchObject({ code: EXIT.done });
    expect(await task.result()).toBe("made by attempt 1");
    const next = await store.queue("next").tasks({ state: "ready" });
    expect(next.tasks).toMatchObject([{ data: { n: 1 }, priority: 3 }]);
  });

  test("a program that succeeded has failed if a task that it added is refused", async () => {
    const folder = makeFolder();
    const store = await openIn(folder);
    await store.queue("small", { maxPayload: 10 }).ready;
    const task = await store.queue("work", { maxAttempts: 1 }).add(1);
    const add = `curl -sS --fail-with-body --unix-socket "$DIBS_SOCKET" http://task/add -d`;
    const script = `${add} '{"queue": "small", "data": "much more than ten bytes"}'`;
    const worked = await dibs(folder, ["work", "work", "--once", "--", "sh", "-c", script]);
    expect(worked).toMatchObject({
      ...{ code: EXIT["task failed"], stdout: "" },
      stderr: expect.stringMatching(/attempt 1 of 1: the program succeeded, but The payload has 26 bytes/),
    });
    expect(await task.info()).toMatchObject({ state: "dead" });
  });

  test("dibs task outside of a program says where it works", async () => {
    const { code, stderr } = await dibs(makeFolder(), ["task", "extend", "1m"]);
    expect(code).toBe(EXIT.usage);
    expect(stderr).toContain("DIBS_SOCKET is not set");
  });

  test("--json prints a line for each task", async () => {
    const folder = makeFolder();
    const store = await openIn(folder);
    const { id } = await store.queue("work").add(1);
    const { stdout } = await dibs(folder, ["work", "work", "--once", "--json", "--", "echo", "hello"]);
    expect(JSON.parse(stdout)).toEqual({
      ...{ id, queue: "work", attempt: 1, code: 0, signal: null, isAborted: false },
      ...{ outputBytes: 6, errorBytes: 0 },
    });
  });

  test("--show-output prints what a program writes to standard error, with harmless control characters", async () => {
    const folder = makeFolder();
    const store = await openIn(folder);
    const { id } = await store.queue("work").add(1);
    const { stderr } = await dibs(folder, [
      ...["work", "work", "--once", "--show-output", "--"],
      ...["sh", "-c", "printf 'one\\n\\033[2Jtwo' >&2"],
    ]);
    expect(stderr).toBe(`${id.slice(-12)}  one\n${id.slice(-12)}  \\u001b[2Jtwo\n`);
  });

  test("a program works on a server and on PostgreSQL as on a file", async () => {
    const folder = makeFolder();
    const { url } = await serve(folder, "--url", "work.db");
    const { url: database, schema } = await freshSchema(onTestFinished);
    for (const [address, ...more] of [[url], [database, "--schema", schema]] as [string, ...string[]][]) {
      const store = await open(address, more.length > 0 ? { schema } : {});
      onTestFinished(() => store.close());
      const task = await store.queue("work").add({ n: 1 });
      const work = ["work", "work", "--once", "--url", address, ...more, "--", "cat"];
      expect(await dibs(folder, work)).toMatchObject({ code: EXIT.done });
      expect(await task.result()).toEqual({ n: 1 });
    }
  });
});

describe("mistakes with dibs work", () => {
  test.each([
    ["no program", ["emails"], "The program is missing"],
    ["no queue", ["--", "cat"], "Name at least one queue before --"],
    ["an unknown program", ["emails", "--", "no-such-program"], '"no-such-program" is not on the PATH'],
    ["a file that cannot be executed", ["emails", "--", "/etc/passwd"], "is not an executable file"],
    ["--wait without --once", ["emails", "--wait", "1s", "--", "cat"], "--wait needs --once"],
    ["a bad queue name", ["a\u0007b", "--", "cat"], "queue"],
    ["no concurrency", ["emails", "--concurrency", "0", "--", "cat"], "between 1 and 10000"],
  ])("%s is refused before anything is claimed", async (_, args, message) => {
    const folder = makeFolder();
    const { code, stderr } = await dibs(folder, ["work", ...args]);
    expect(code).toBe(EXIT.usage);
    expect(stderr).toContain(message);
  });

  test("a queue that does not exist is mentioned with the nearest name", async () => {
    const folder = makeFolder();
    const store = await openIn(folder);
    await store.queue("emails").add(1);
    const { code, stderr } = await dibs(folder, [
      ...["work", "emials", "--once", "--wait", "100ms", "--", "cat"],
    ]);
    expect(code).toBe(EXIT["no task"]);
    expect(stderr).toContain('there is no queue "emials" yet');
    expect(stderr).toContain('Did you mean "emails"?');
  });
});

describe("the end of dibs work", () => {
  /** A program that tells its pid and waits for a file. */
  async function working(how = "true") {
    const folder = makeFolder();
    const store = await openIn(folder);
    const task = await store.queue("work", { lease: "2s" }).add(1);
    const script = `${how}; echo $$ >&2; while [ ! -e go ]; do sleep 0.05; done; echo done`;
    const child = start(folder, ["work", "work", "--show-output", "--", "sh", "-c", script]);
    const lines = createInterface({ input: child.stderr })[Symbol.asyncIterator]();
    const { value } = (await lines.next()) as { value: string };
    return { folder, task, child, pid: Number(value.split(/\s+/).at(-1)), lines };
  }

  test.each([
    ["dibs work", [], EXIT.done, "0 tasks done, 0 failed"],
    ["dibs work --once", ["--once"], EXIT.interrupted, ""],
  ])("Ctrl-C right after the first line of %s ends it as later ones do", async (_, flags, exit, last) => {
    const folder = makeFolder();
    const child = start(folder, ["work", "later", ...flags, "--", "cat"]);
    const closed = once(child, "close");
    const lines: string[] = [];
    for await (const line of createInterface({ input: child.stderr })) {
      lines.push(line);
      if (lines.length === 1) child.kill("SIGINT");
    }
    expect(lines[0]).toContain('there is no queue "later" yet');
    expect(lines.slice(1).join()).toContain(last);
    expect(await closed).toEqual([exit, null]);
  });

  test("the first Ctrl-C lets the program finish", async () => {
    const { folder, task, child, lines } = await working();
    child.kill("SIGINT");
    expect((await lines.next()).value).toContain("waiting for 1 program to finish");
    writeFileSync(join(folder, "go"), "");
    expect(await once(child, "exit")).toEqual([0, null]);
    expect(await task.info()).toMatchObject({ state: "done" });
  });

  test("the second Ctrl-C ends the program and releases its task", async () => {
    const { task, child, pid, lines } = await working("trap '' TERM INT");
    child.kill("SIGINT");
    await lines.next();
    child.kill("SIGINT");
    expect(await once(child, "exit")).toEqual([EXIT.interrupted, null]);
    expect(isAlive(pid)).toBe(false);
    expect(await task.info()).toMatchObject({ state: "ready" });
    expect(await task.history()).toMatchObject([{ outcome: "released" }]);
  });

  test("a supervisor that is killed leaves no process and no socket behind, and its task returns", async () => {
    const before = sockets();
    // The program has a child that left its process group.
    const { folder, task, child, pid } = await working(
      "setsid sh -c 'echo $$ > escaped; exec sleep 600' & true",
    );
    await expect.poll(() => existsSync(join(folder, "escaped"))).toBe(true);
    const escaped = Number(readFileSync(join(folder, "escaped"), "utf8"));
    child.kill("SIGKILL");
    await expect.poll(() => [pid, escaped].filter(isAlive)).toEqual([]);
    await expect.poll(() => sockets().filter((each) => !before.includes(each))).toEqual([]);
    writeFileSync(join(folder, "go"), "");
    expect(await dibs(folder, ["work", "work", "--once", "--", "echo", "again"])).toMatchObject({
      code: EXIT.done,
    });
    expect(await task.result()).toBe("again");
    expect(await task.history()).toMatchObject([{ outcome: "lost" }, { outcome: "done" }]);
  });
});

function sockets(): string[] {
  return readdirSync(tmpdir()).filter((name) => /^dibs-[A-Za-z0-9]{6}$/.test(name));
}
