import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, test } from "vitest";
import { EXIT } from "../../src/cli/exit.ts";
import { open } from "../../src/index.ts";
import { until } from "../e2e/harness/stage.ts";
import { processesOf } from "../pools/pool-kit.ts";
import { dibs, dibsJson, inTerminal, makeFolder, start } from "./run-dibs.ts";

const QUICK = ["--interval", "50ms", "--up-cooldown", "100ms", "--down-cooldown", "500ms"];

interface Decided {
  pool: string;
  type: string;
  to?: number;
  reasons: string[];
}

/** Starts a pool, and collects its decisions until one is the last. */
async function runPool(folder: string, args: string[], isLast: (decided: Decided) => boolean) {
  const child = start(folder, ["pool", "--json", ...args]);
  const decided: Decided[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    decided.push(JSON.parse(line) as Decided);
    if (isLast(decided.at(-1)!)) break;
  }
  return { child, decided };
}

test("dibs pool runs drones for the tasks of a queue, from zero to zero, and ends on a signal", async () => {
  const folder = makeFolder();
  const file = join(folder, "dibs.db");
  await dibs(folder, ["add", "emails", "-"], { input: "1\n2\n3\n4\n" });
  const policy = [...QUICK, "--tasks-per-worker", "2", "--max", "2"];
  const args = ["emails", ...policy, "--", "sh", "-c", "cat; echo 0"];
  const { child, decided } = await runPool(folder, args, ({ to }) => to === 0);
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  expect(await ended).toEqual([EXIT.done, null]);
  const sizes = decided.flatMap(({ to }) => to ?? []);
  expect(sizes[0]).toBe(2);
  expect(sizes).toEqual(sizes.toSorted((a, b) => b - a));
  expect(decided.every(({ reasons }) => reasons.length > 0)).toBe(true);
  await using store = await open(file);
  expect((await store.queue("emails").stats()).depth).toMatchObject({ done: 4, ready: 0, claimed: 0 });
  expect(processesOf(file)).toEqual([]);
});

test("a drone may take as long to finish as its pool allows", async () => {
  const folder = makeFolder();
  const task = (await dibs(folder, ["add", "emails", "1"])).stdout.trim();
  const args = [
    "emails",
    ...QUICK,
    "--stop-timeout",
    "5m",
    "--",
    "sh",
    "-c",
    "tr '\\0' ' ' < /proc/$PPID/cmdline",
  ];
  const { child } = await runPool(folder, args, ({ to }) => to === 0);
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  await ended;
  expect(await dibsJson(folder, "task", "show", task)).toMatchObject({
    ...{ state: "done", result: expect.stringContaining(" --stop-timeout 300000ms -- ") },
  });
});

test("dibs pools lists pools, and the decisions of one with their reasons", async () => {
  const folder = makeFolder();
  await dibs(folder, ["add", "emails", "1"]);
  const args = ["emails", ...QUICK, "--min", "1", "--max", "1", "--", "cat"];
  const { child } = await runPool(folder, args, ({ to }) => to === 1);
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  await ended;
  expect(await dibsJson(folder, "pools")).toMatchObject([
    { name: "emails", queues: ["emails"], running: false, mode: "latency", min: 1, max: 1, size: 0 },
  ]);
  const decisions = (await dibsJson(folder, "pools", "emails")) as Decided[];
  expect(decisions.map(({ type }) => type)).toEqual(["pool.stopped", "pool.resized", "pool.started"]);
  const { stdout } = await dibs(folder, ["pools", "emails"]);
  expect(stdout).toMatch(/^AGE +DECISION +FROM +TO +WHY$/m);
  expect(stdout).toMatch(/resized +0 +1 .*Grows from 0 to 1\.$/m);
  expect(await dibs(folder, ["pools", "email"])).toMatchObject({ code: EXIT["not found"], stdout: "" });
});

test("dibs pool --config runs several pools that share a cap", async () => {
  const folder = makeFolder();
  await dibs(folder, ["add", "mails", "-"], { input: "1\n2\n3\n" });
  await dibs(folder, ["add", "scans", "-"], { input: "1\n2\n3\n" });
  const policy = {
    tasksPerWorker: 1,
    max: 3,
    interval: 50,
    upCooldown: 50,
    downCooldown: 300,
    kind: "drone",
  };
  const pools = ["mails", "scans"].map((queue) => ({ ...policy, queues: [queue], command: ["cat"] }));
  writeFileSync(join(folder, "pools.json"), JSON.stringify({ cap: 2, pools }));
  const done = new Set<string>();
  const { child, decided } = await runPool(folder, ["--config", "pools.json"], ({ pool, to }) => {
    if (to === 0) done.add(pool);
    return done.size === 2;
  });
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  await ended;
  expect(Math.max(...decided.map(({ to = 0 }) => to))).toBeLessThanOrEqual(2);
  await using store = await open(join(folder, "dibs.db"));
  for (const queue of ["mails", "scans"])
    expect((await store.queue(queue).stats()).depth).toMatchObject({ done: 3, ready: 0 });
});

describe("dibs pool refuses", () => {
  test.each([
    [["emails"], "Name queues and, after --, the program"],
    [["--", "cat"], "Name queues and, after --, the program"],
    [["emails", "--min", "5", "--max", "2", "--", "cat"], "min must not be above max"],
    [["emails", "--", "no-such-program"], '"no-such-program" is not on the PATH'],
    [["emails", "--programs", "--", "./missing.sh"], '"./missing.sh" is not an executable file'],
    [["--config", "missing.json"], "cannot be read"],
    [["emails", "--config", "pools.json"], "With --config, the file names the queues"],
    [
      ["--config", "pools.json", "--max", "3"],
      "With --config, the file has the options of each pool. Write max there",
    ],
  ])("dibs pool refuses %j", async (args, problem) => {
    const { code, stderr } = await dibs(makeFolder(), ["pool", ...args]);
    expect({ code, stderr }).toEqual({
      code: EXIT.usage,
      stderr: expect.stringContaining(problem) as string,
    });
  });
});

test("a pool in a terminal finishes its tasks at the first Ctrl-C, and ends at the second; another of its name waits", async () => {
  const folder = makeFolder();
  await dibs(folder, ["add", "emails", "1"]);
  const args = ["pool", "emails", ...QUICK, "--stop-timeout", "60s", "--", "sleep", "600"];
  const pool = inTerminal(folder, args);
  await using store = await open(join(folder, "dibs.db"));
  await until("a drone has the task", async () => (await store.queue("emails").stats()).depth.claimed === 1);
  const second = inTerminal(folder, args);
  await second.sees(/Pool emails waits: process \d+ on \S+ runs a pool of this name\./);
  second.terminal.write("\u0003");
  expect(await second.end()).toBe(EXIT.done);
  pool.terminal.write("\u0003");
  await pool.sees(/Workers finish their tasks\. Press Ctrl-C again to end at once\./);
  pool.terminal.write("\u0003");
  expect(await pool.end()).toBe(EXIT.interrupted);
  await until("no process is left", async () => processesOf(folder).length === 0);
});

test("an alert of a pool file is printed", async () => {
  const folder = makeFolder();
  await dibs(folder, ["add", "emails", "1"]);
  const pools = [{ queues: ["other"], kind: "drone", command: ["true"] }];
  const alerts = { every: "50ms", rules: [{ queue: "emails", when: "depth", above: 0 }] };
  writeFileSync(join(folder, "pools.json"), JSON.stringify({ pools, alerts }));
  const child = start(folder, ["pool", "--config", "pools.json"]);
  const said: string[] = [];
  child.stderr.setEncoding("utf8").on("data", (part: string) => said.push(part));
  while (!said.join("").includes("Alert raised: emails: 1 task waits")) await once(child.stderr, "data");
  const ended = once(child, "exit");
  child.kill("SIGINT");
  expect(await ended).toEqual([EXIT.done, null]);
});
