// The demo: real processes on a real server. Everything moves, it can be steered, and no process is left over.

import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, onTestFinished, test } from "vitest";
import { EXIT } from "../../src/cli/exit.ts";
import { startDemo } from "../../src/demo/start.ts";
import { type Dibs, open } from "../../src/index.ts";
import { dibs as runDibs, makeFolder, serve, start } from "../cli/run-dibs.ts";
import { until } from "../e2e/harness/stage.ts";

/** The processes that have this address in their environment, as those of the demo do. */
function processesOf(url: string): number[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, "utf8").includes(`DIBS_URL=${url}\0`);
    } catch {
      return false;
    }
  });
}

async function nothingLeft(url: string): Promise<void> {
  await until("no process is left", () => processesOf(url).length === 0);
}

async function startOnServer(settings: { rate?: number; workers?: number } = {}) {
  const { url } = await serve(makeFolder());
  const dibs = await open(url);
  onTestFinished(() => dibs.close());
  const demo = await startDemo({ url, ...settings });
  onTestFinished(() => demo.stop());
  return { url, dibs, demo };
}

async function mailers(dibs: Dibs): Promise<string[]> {
  return (await dibs.workers({ queue: "emails" })).map(({ name }) => name).toSorted();
}

describe("startDemo()", { timeout: 180_000 }, () => {
  test("the demo makes everything in the store move", async () => {
    const { dibs } = await startOnServer({ rate: 60 });
    const done = async (queue: string) => (await dibs.queue(queue).stats()).depth.done;
    const queues = ["emails", "research", "invoices", "completions", "webhooks", "chores"];
    for (const queue of queues) await until(`${queue} ends tasks`, async () => (await done(queue)) > 0);
    await until("a report is published", async () => (await done("report/publish")) > 0);
    await until(
      "orders reach their subscribers",
      async () => (await done("topic/order.:one/customer-news")) > 0,
    );
    expect((await dibs.subscriptions()).map(({ group }) => group).toSorted()).toEqual([
      ...["audit-log", "customer-news", "inventory"],
    ]);
    expect((await dibs.schedules()).length).toBe(4);
    expect((await dibs.pools()).map(({ name, running }) => ({ name, running }))).toEqual([
      { name: "exporters", running: true },
      { name: "researchers", running: true },
    ]);
    await until("an email fails for good", async () => (await dibs.queue("emails").stats()).depth.dead > 0);
  });

  test("a worker that crashes is replaced, and another one finishes its task", async () => {
    const { dibs, demo } = await startOnServer({ rate: 0 });
    const before = new Set((await dibs.workers({ queue: "emails" })).map(({ pid }) => pid));
    const data = { to: "a@example.com", subject: "s", template: "t", ms: 1, trouble: "huge" };
    const task = await dibs.queue("emails").add(data);
    expect(await task.result({ timeout: "60s" })).toEqual({ sent: true, ms: 1 });
    expect((await task.history()).map(({ outcome }) => outcome)).toEqual(["lost", "done"]);
    await until("three workers again, one of them new", async () => {
      const now = (await dibs.workers({ queue: "emails" })).map(({ pid }) => pid);
      return now.length === 3 && now.some((pid) => !before.has(pid));
    });
    expect(demo.status().workers).toBe(3);
  });

  test("set() changes the rate and the workers, and stop() leaves no process and no schedule", async () => {
    const { url, dibs, demo } = await startOnServer({ rate: 0, workers: 1 });
    expect(demo.status()).toEqual({ rate: 0, workers: 1, running: true, startedAt: expect.any(Date) });
    expect((await dibs.queue("emails").stats()).depth.done).toBe(0);
    demo.set({ rate: 100 });
    await until("emails are added", async () => (await dibs.queue("emails").stats()).depth.done > 0);
    demo.set({ workers: 3 });
    await until("three", async () => (await mailers(dibs)).join() === "mailer-1,mailer-2,mailer-3");
    demo.set({ workers: 1 });
    demo.set({ workers: 2 });
    await until("two", async () => (await mailers(dibs)).join() === "mailer-1,mailer-2");
    expect(demo.status()).toMatchObject({ rate: 100, workers: 2 });
    await demo.stop();
    expect(demo.status().running).toBe(false);
    await nothingLeft(url);
    expect(await dibs.schedules()).toEqual([]);
    expect(() => demo.set({ rate: 1 })).toThrow("The demo was stopped");
  });

  test.each([
    [{ rate: 5_001 }, "rate must be a whole number from 0 to 5000; got 5001."],
    [{ workers: -1 }, "workers must be a whole number from 0 to 32; got -1."],
    [{ speed: 1 }, 'Unknown demo option "speed".'],
  ])("%j is refused", async (settings, message) => {
    await expect(startDemo({ url: "unused.db", ...settings })).rejects.toThrow(message);
  });

  test("startDemo reports a missing server once, and starts no process", async () => {
    const url = "http://127.0.0.1:9";
    await expect(startDemo({ url })).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(processesOf(url)).toEqual([]);
  });
});

describe("dibs demo", { timeout: 120_000 }, () => {
  async function startShell(...args: string[]) {
    const folder = makeFolder();
    const child = start(folder, ["demo", "--port", "0", ...args], { TMPDIR: folder });
    let text = "";
    child.stdout.setEncoding("utf8").on("data", (part: string) => (text += part));
    while (!/dead patterns .*\n/.test(text)) await once(child.stdout, "data");
    const lines = text.split("\n");
    const url = /http:\S+/.exec(lines[0]!)![0];
    onTestFinished(() => processesOf(url).forEach((pid) => process.kill(pid, "SIGKILL")));
    return { folder, child, lines, url };
  }

  test("dibs demo prints where to look, and Ctrl-C ends everything and removes the temporary store", async () => {
    const { folder, child, lines, url } = await startShell("--rate", "5", "--workers", "1");
    expect(lines).toContain(`  ./dibs top --url ${url}`);
    const dibs = await open(url);
    expect(await mailers(dibs)).toEqual(["mailer-1"]);
    await dibs.close();
    child.kill("SIGINT");
    expect(await once(child, "close")).toEqual([0, null]);
    await nothingLeft(url);
    expect(readdirSync(folder)).toEqual([]);
  });

  test("the second Ctrl-C ends dibs demo at once, and removes the temporary store", async () => {
    const { folder, child, url } = await startShell();
    child.kill("SIGINT");
    child.kill("SIGINT");
    // The second one may come before the first is handled: a signal is not counted.
    const again = setInterval(() => child.kill("SIGINT"), 20);
    onTestFinished(() => clearInterval(again));
    expect(await once(child, "close")).toEqual([EXIT.interrupted, null]);
    expect(readdirSync(folder)).toEqual([]);
    await nothingLeft(url);
  });

  test("no process is left when dibs demo is killed", async () => {
    const { child, url } = await startShell();
    await until("a pool has started its worker", async () => processesOf(url).length > 7);
    child.kill("SIGKILL");
    await nothingLeft(url);
  });

  test("dibs demo only adds traffic to a server that runs already", async () => {
    const { url } = await serve(makeFolder());
    const child = start(makeFolder(), ["demo", "--url", url, "--workers", "1"]);
    const dibs = await open(url);
    onTestFinished(() => dibs.close());
    await until("emails are sent", async () => (await dibs.queue("emails").stats()).depth.done > 0);
    child.kill("SIGTERM");
    expect(await once(child, "close")).toEqual([0, null]);
    await nothingLeft(url);
  });

  test("dibs demo refuses a rate that is too high before anything starts", async () => {
    const { code, stderr } = await runDibs(makeFolder(), ["demo", "--rate", "9000"]);
    expect(stderr).toContain("It must be between 0 and 5000.");
    expect(code).toBe(2);
  });
});
