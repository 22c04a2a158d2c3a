import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { ProgramsOptions } from "../../src/programs/programs.ts";
import * as kit from "./kit.ts";

const { isAlive } = kit;

describe.each([
  ["by a launcher of Perl", 4, "perl"],
  ["by launchers of Node", 4, "node"],
  ["by the supervisor itself", null, undefined],
] as const)("programs that are started %s", (_, concurrency, launcher) => {
  const workWith = (script: string, options: Partial<ProgramsOptions> = {}) =>
    kit.workWith(script, { concurrency, launcher: launcher!, ...options });

  describe("the input of a program", () => {
    test("a program gets the payload on standard input, byte for byte", async () => {
      const { queue } = await workWith("cat");
      const data = { text: "a\tb \u{1f600} '$HOME'", list: [1, 2.5, null] };
      const task = await queue.add(data);
      expect(await task.result()).toEqual(data);
    });

    test("a program gets a payload that is larger than a pipe, when it reads it late", async () => {
      const { queue } = await workWith("sleep 0.1; wc -c");
      const task = await queue.add("x".repeat(200_000));
      expect(await task.result()).toBe(200_002);
    });

    test("a program need not read its input", async () => {
      const { queue } = await workWith("exit 0");
      const task = await queue.add("x".repeat(200_000));
      expect(await task.result()).toBeUndefined();
    });

    test("a program gets facts about its task in DIBS_ variables", async () => {
      const names = "TASK_ID QUEUE ATTEMPT MAX_ATTEMPTS WORKER PRIORITY GROUP_KEY CONTENT_TYPE HEADERS";
      const print = names.split(" ").map((name) => `printf '%s\\n' "$DIBS_${name}"`);
      const { queue } = await workWith(print.join("; "));
      const task = await queue.add(1, { priority: 3, groupKey: "g 1", headers: { type: 'a"b' } });
      const facts = [task.id, "work", "1", "5", "tester", "3", "g 1", "application/json", '{"type":"a\\"b"}'];
      expect(await task.result()).toBe(facts.join("\n"));
    });

    test("a program does not inherit the settings and secrets of dibs", async () => {
      process.env["DIBS_TOKEN"] = "secret";
      process.env["DIBS_URL"] = "postgres://u:secret@h/d";
      const { queue } = await workWith("env");
      delete process.env["DIBS_TOKEN"];
      delete process.env["DIBS_URL"];
      const printed = (await (await queue.add(1)).result()) as string;
      expect(printed).toContain("PATH=");
      expect(printed).not.toContain("secret");
    });
  });

  describe("the exit code of a program", () => {
    test.each([
      ["JSON", `echo '{"sent": true}'`, { sent: true }],
      ["text", "echo hello", "hello"],
      ["nothing", "true", undefined],
    ])("exit 0 acks, with standard output as the result: %s", async (_, script, result) => {
      const { queue } = await workWith(script);
      expect(await (await queue.add(1)).result()).toEqual(result);
    });

    test("exit 65 rejects the task, with standard error as the reason", async () => {
      const { queue } = await workWith("echo 'no such user' >&2; exit 65");
      const task = await queue.add(1);
      await expect(task.result()).rejects.toMatchObject({ code: "TASK_DEAD" });
      expect(await task.history()).toMatchObject([
        // Without a stack: it would name files of dibs.
        { outcome: "rejected", error: { message: "exit code 65: no such user", stack: null } },
      ]);
    });

    test("another exit code fails the attempt, with the tail of standard error in the ledger", async () => {
      const lines = `i=0; while [ $i -lt 2000 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 3`;
      const { queue } = await workWith(lines);
      const task = await queue.add(1, { maxAttempts: 2 });
      await expect(task.result()).rejects.toMatchObject({ code: "TASK_DEAD" });
      const [first, second] = await task.history();
      expect(second).toMatchObject({ outcome: "failed", error: { name: "ProgramError" } });
      expect(first!.error!.message).toMatch(/^exit code 3: … .*\nline 1999$/s);
      expect(first!.error!.message.length).toBeLessThan(5_000);
    });

    test("a program that a signal ended has failed", async () => {
      const { queue } = await workWith("kill -SEGV $$");
      const task = await queue.add(1, { maxAttempts: 1 });
      await expect(task.result()).rejects.toMatchObject({ code: "TASK_DEAD" });
      expect(await task.history()).toMatchObject([{ error: { message: "ended by SIGSEGV" } }]);
    });

    test("exit 75 fails the attempt, and exit 75 with a duration releases the task", async () => {
      const { queue } = await workWith(`[ "$DIBS_ATTEMPT" = 1 ] && exit 75; echo 1h; exit 75`);
      const task = await queue.add(1, { maxAttempts: 2 });
      await expect.poll(async () => (await task.info()).state).toBe("scheduled");
      const history = await task.history();
      expect(history).toMatchObject([
        { attempt: 1, outcome: "failed" },
        { attempt: 2, outcome: "released" },
      ]);
      expect((await task.info()).dueAt!.getTime() - history[1]!.endedAt.getTime()).toBe(3_600_000);
    });

    test("output above the limit is counted and not stored", async () => {
      const { queue, ended } = await workWith("head -c 5000000 /dev/zero | tr '\\0' x");
      const result = (await (await queue.add(1)).result()) as string;
      expect(result).toMatch(/^x{32768}… \(4967232 more bytes were not stored\)$/);
      expect(ended[0]!.output.bytes).toBe(5_000_000);
    });

    test("a program that cannot be started leaves its task unharmed", async () => {
      const { queue, notStarted } = await workWith("", { command: ["/no/such/program"] });
      const task = await queue.add(1);
      await expect.poll(async () => (await task.info()).state).toBe("scheduled");
      expect(await task.history()).toMatchObject([{ outcome: "released" }]);
      expect(notStarted[0]!.message).toContain("ENOENT");
    });
  });

  describe("the end of a program's process group", () => {
    const folder = mkdtempSync(join(tmpdir(), "dibs-programs-"));
    let files = 0;
    /** A script that writes its own pid and that of a child in the background, then waits. */
    function waiting(how: string): { script: string; pids: () => number[] } {
      const file = join(folder, `${files++}`);
      const script = `${how}; sleep 600 & echo $$ $! > ${file}.part; mv ${file}.part ${file}; wait`;
      const pids = (): number[] =>
        existsSync(file) ? readFileSync(file, "utf8").trim().split(" ").map(Number) : [];
      return { script, pids };
    }

    test("a cancelled task ends its program and what the program has started", async () => {
      const { script, pids } = waiting("true");
      const { queue } = await workWith(script);
      const task = await queue.add(1);
      await expect.poll(() => pids().length).toBe(2);
      await task.cancel();
      await expect.poll(async () => (await task.info()).state).toBe("cancelled");
      await expect.poll(() => pids().filter(isAlive)).toEqual([]);
    });

    test("a program that ignores TERM is killed, with its children", async () => {
      const { script, pids } = waiting("trap '' TERM");
      const { queue } = await workWith(script, { killAfter: 100 });
      const task = await queue.add(1);
      await expect.poll(() => pids().length).toBe(2);
      await task.cancel();
      await expect.poll(() => pids().filter(isAlive)).toEqual([]);
    });

    test("a program that runs longer than the timeout of its queue is ended, and has failed", async () => {
      const { script, pids } = waiting("true");
      const { dibs, queue } = await workWith(script);
      await dibs.queue("work", { timeout: "1s", maxAttempts: 1 }).add(0);
      const [task] = (await queue.tasks({ state: "claimed" })).tasks;
      await expect.poll(() => pids().length).toBe(2);
      await expect.poll(async () => (await queue.stats()).depth.dead).toBe(1);
      await expect.poll(() => pids().filter(isAlive)).toEqual([]);
      if (task) expect(await dibs.task(task.id).history()).toMatchObject([{ outcome: "timeout" }]);
    });

    test("a child that a program leaves behind ends with it", async () => {
      const file = join(folder, `${files++}`);
      const { queue } = await workWith(`sleep 600 & echo $! > ${file}; echo done`);
      expect(await (await queue.add(1)).result()).toBe("done");
      const child = Number(readFileSync(file, "utf8"));
      await expect.poll(() => isAlive(child)).toBe(false);
    });
  });
});

test.each(["perl", "node"] as const)(
  "a launcher (%s) that gets TERM, as each process of a service does when it stops, lets its programs finish",
  async (launcher) => {
    const folder = mkdtempSync(join(tmpdir(), "dibs-programs-"));
    const file = (name: string): string => join(folder, name);
    const script = `echo $PPID > ${file("part")}; mv ${file("part")} ${file("parent")}
      while [ ! -e ${file("go")} ]; do sleep 0.05; done; echo finished`;
    const { queue } = await kit.workWith(script, { launcher });
    const task = await queue.add(1);
    await expect.poll(() => existsSync(file("parent"))).toBe(true);
    const parent = Number(readFileSync(file("parent"), "utf8"));
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.kill(parent, signal);
    writeFileSync(file("go"), "");
    expect(await task.result()).toBe("finished");
    expect(await task.history()).toMatchObject([{ outcome: "done" }]);
  },
);

test.each(["perl", "node"] as const)(
  "a launcher (%s) that is killed ends its programs, and their tasks are released",
  async (launcher) => {
    const folder = mkdtempSync(join(tmpdir(), "dibs-programs-"));
    const file = join(folder, "pids");
    const script = `echo $PPID $$ > ${file}.part; mv ${file}.part ${file}; exec sleep 600`;
    const { queue, notStarted } = await kit.workWith(script, { killAfter: 500, launcher });
    const task = await queue.add(1);
    await expect.poll(() => existsSync(file)).toBe(true);
    const [parent, program] = readFileSync(file, "utf8").trim().split(" ").map(Number) as [number, number];
    process.kill(parent, "SIGKILL");
    await expect.poll(async () => (await task.info()).state).toBe("scheduled");
    // The process that adopted it needs a moment to collect it.
    await expect.poll(() => isAlive(program)).toBe(false);
    // This worker goes on, and releases the task again; dibs work stops here.
    expect(new Set((await task.history()).map(({ outcome }) => outcome))).toEqual(new Set(["released"]));
    expect(notStarted[0]!.message).toBe("the process that starts programs was ended");
  },
);
