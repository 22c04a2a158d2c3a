// dibs doctor and dibs completion: what they find, and that each finding says what to do.

import { execFile } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { complete } from "../../src/cli/complete.ts";
import { checkClock } from "../../src/cli/doctor/finding.ts";
import { EXIT } from "../../src/cli/exit.ts";
import { open } from "../../src/index.ts";
import { dibs, MAIN, makeFolder } from "./run-dibs.ts";
import { KINDS, storeOf } from "./store-of.ts";

interface Report {
  address: string;
  checks: { check: string; status: string; message: string; advice: string | null }[];
}

async function examine(folder: string, ...flags: string[]): Promise<Report & { code: number | null }> {
  const { code, stdout } = await dibs(folder, ["doctor", "--json", ...flags]);
  return { code, ...(JSON.parse(stdout) as Report) };
}

describe.each(KINDS)("dibs doctor on a %s", (kind) => {
  test("dibs doctor finds nothing wrong with a healthy store, and lists what is stuck in it", async () => {
    const { folder, flags, dibs: store } = await storeOf(kind);
    await store.queue("idle", { lease: "10s" }).ready;
    const healthy = await examine(folder, ...flags);
    const bad = healthy.checks.filter(({ check, status }) => status !== "ok" && !IN_TESTS.has(check));
    expect({ code: healthy.code, bad }).toEqual({
      code: kind === "postgres" ? expect.any(Number) : EXIT.done,
      bad: [],
    });
    await store.queue("unserved").add(1);
    await store.queue("paused").add(1);
    await store.queue("paused").pause();
    await store.queue("held").add(1);
    const [held] = await store.queue("held").claim();
    await held!.hold(new Error("429"), { delay: "1h" });
    await store.queue("failed").add(1);
    const [failed] = await store.queue("failed").claim();
    await failed!.reject(new Error("no"));
    const { checks } = await examine(folder, ...flags);
    const advice = checks.filter(({ status }) => status === "warning").map((found) => found.advice);
    expect(advice).toEqual(
      expect.arrayContaining([
        ...["dibs dead patterns failed", "dibs unhold held", "dibs queue resume paused"],
        "Start one: dibs work unserved -- COMMAND",
      ]),
    );
  });
});

/** The tests' own PostgreSQL is fast rather than safe, and their files are in memory. */
const IN_TESTS = new Set(["durability", "autovacuum", "file system"]);

test("dibs doctor says what is wrong with a file, and what to do", async () => {
  const folder = makeFolder();
  const missing = await examine(folder, "--url", "no.db");
  expect(missing).toMatchObject({ code: EXIT.failed, address: "no.db" });
  expect(missing.checks.at(-1)).toMatchObject({ check: "file", status: "problem" });
  writeFileSync(join(folder, "text.db"), "This is not a store.".repeat(100));
  const other = await examine(folder, "--url", "text.db");
  expect(other.checks.at(-1)).toMatchObject({ check: "store", status: "problem" });
  const store = await open(join(folder, "open.db"));
  await store.queue("emails").add(1);
  await store.close();
  chmodSync(join(folder, "open.db"), 0o666);
  const shared = await examine(folder, "--url", "open.db");
  expect(shared.checks.find(({ check }) => check === "permissions")).toMatchObject({
    ...{ status: "warning", advice: `chmod o-w ${join(folder, "open.db")}` },
  });
});

test.each([
  ["http://", "is not the address of a server"],
  ["postgres://ada:hunter2@127.0.0.1:9/none", "cannot be reached"],
  [":memory:", "is gone when its command ends"],
])("dibs doctor says what is wrong with the address %s", async (url, words) => {
  const { code, checks } = await examine(makeFolder(), "--url", url);
  expect({ code, last: checks.at(-1) }).toMatchObject({
    ...{ code: EXIT.failed, last: { status: "problem", message: expect.stringContaining(words) } },
  });
  expect(JSON.stringify(checks)).not.toContain("hunter2");
});

test("dibs doctor says that a server does not answer, without the password in its address", async () => {
  const { code, checks, address } = await examine(makeFolder(), "--url", "http://user:hunter2@127.0.0.1:9");
  expect(code).toBe(EXIT.failed);
  expect(checks.at(-1)).toMatchObject({ check: "server", status: "problem" });
  expect(JSON.stringify({ checks, address })).not.toContain("hunter2");
});

test("a clock that differs by more than two seconds is a warning", () => {
  expect(checkClock("the server", 1_000_500, 1_000_000, 1_000_100).status).toBe("ok");
  expect(checkClock("the server", 1_009_000, 1_000_000, 1_000_100)).toMatchObject({
    ...{ status: "warning", message: expect.stringContaining("by 8.9 s") },
  });
});

describe("completion", () => {
  test.each([
    [["que"], ["queue", "queues"]],
    [
      ["queue", "s"],
      ["set", "show"],
    ],
    [["tasks", "emails", "--state", "re"], ["ready"]],
    [["tasks", "emails", "--ol"], ["--older-than"]],
    [["work", "emails", "--", "./se"], []],
    [
      ["completion", ""],
      ["bash", "fish", "zsh"],
    ],
    [["nothing", ""], []],
  ])("after dibs %j, %j may follow", async (words, found) => {
    expect(await complete(words)).toEqual(found);
  });

  test("bash completes verbs, and queues of the store", async () => {
    const folder = makeFolder();
    for (const queue of ["emails", "mail:in", "mail:out"]) await dibs(folder, ["add", queue, "1"]);
    const script = [
      `dibs() { ${process.execPath} ${MAIN} "$@"; }`,
      `eval "$(dibs completion bash)"`,
      // Bash's own value. It splits words at colons, and takes what is offered for the part after the last one.
      `COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'`,
      `try() { COMP_LINE="$*"; COMP_POINT=\${#COMP_LINE}; _dibs; echo "\${COMPREPLY[*]}"; }`,
      `try dibs que; try dibs queue show em; try dibs dead ls emails --err; try dibs work "ma"; try dibs work mail:o`,
      `try dibs queue show ""`,
    ].join("\n");
    const { stdout } = await promisify(execFile)("bash", ["-c", script], { cwd: folder });
    expect(stdout.split("\n")).toEqual([
      ...["queue queues", "emails", "--error", "mail:in mail:out", "out", "emails mail:in mail:out", ""],
    ]);
  });
});
