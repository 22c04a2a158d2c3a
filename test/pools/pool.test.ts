import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { Cap } from "../../src/pools/cap.ts";
import { KEPT_LEASE_MS } from "../e2e/harness/stage.ts";
import { isLong } from "../run/long.ts";
import { childrenOf, isStopped, makeSite, processesOf, startSupervisor, type Site } from "./pool-kit.ts";

/** Twenty supervisors take a minute or two, and many times that on a busy machine. */
const LONG = { timeout: isLong ? 900_000 : 60_000 };

async function addTasks({ dibs }: Site, count: number, ms: number): Promise<void> {
  const tasks = Array.from({ length: count }, () => ({ data: { ms } }));
  await dibs.queue("work", { lease: "10s" }).addMany(tasks);
}

async function doneOf({ dibs }: Site): Promise<number> {
  return (await dibs.queue("work").stats()).depth.done;
}

/** The sizes that the pool has decided, in order. */
async function sizesOf({ dibs }: Site): Promise<number[]> {
  const decisions = await dibs.poolDecisions("workers", { limit: 1_000 });
  return decisions.toReversed().flatMap(({ to }) => to ?? []);
}

describe("a pool of programs", () => {
  test("a square wave is followed up and down, nothing is lost, and no process is left over", async () => {
    const site = await makeSite();
    const pool = site.dibs.pool(site.options("worker"));
    for (const wave of [1, 2]) {
      await addTasks(site, 16, 100);
      await expect.poll(() => doneOf(site)).toBe(wave * 16);
      await expect.poll(() => pool.status().size).toBe(0);
    }
    const sizes = await sizesOf(site);
    expect(Math.max(...sizes)).toBe(4);
    // Up once and down once per wave; on the way, steps in one direction.
    const turns = sizes.filter(
      (size, at) =>
        at > 0 && Math.sign(size - sizes[at - 1]!) !== Math.sign((sizes[at - 1] ?? 0) - (sizes[at - 2] ?? 0)),
    );
    expect(turns.length).toBeLessThanOrEqual(3);
    expect((await site.dibs.queue("work").stats()).depth).toMatchObject({
      done: 32,
      dead: 0,
      claimed: 0,
      ready: 0,
    });
    await pool.stop();
    expect(processesOf(site.file)).toEqual([]);
  });

  test("no task is executed twice or fails when the pool shrinks", async () => {
    const site = await makeSite();
    const pool = site.dibs.pool(site.options("worker", { downCooldown: 50 }));
    await addTasks(site, 12, 300);
    await addTasks(site, 1, 2_000);
    await expect.poll(() => doneOf(site)).toBe(13);
    await pool.stop();
    const { tasks } = await site.dibs.queue("work").tasks({ state: "done", limit: 100 });
    expect(tasks.map(({ attempt }) => attempt)).toEqual(tasks.map(() => 1));
  });

  test("decisions have reasons, and others can read them", async () => {
    const site = await makeSite();
    const pool = site.dibs.pool(site.options("worker", { min: 1 }));
    await pool.ready;
    await expect.poll(() => sizesOf(site)).toEqual([1]);
    const [resized, started] = await site.dibs.poolDecisions("workers");
    expect(started).toMatchObject({ type: "pool.started", queue: "work", at: expect.any(Date) as Date });
    expect(resized).toMatchObject({ type: "pool.resized", from: 0, to: 1 });
    expect(resized!.reasons).toContain("The pool keeps at least 1 worker.");
    expect(await site.dibs.pools()).toMatchObject([
      { name: "workers", queues: ["work"], running: true, min: 1, max: 4, pid: process.pid },
    ]);
    await pool.stop();
    expect(await site.dibs.pools()).toMatchObject([{ running: false, size: 0 }]);
  });

  test("a crash loop is reported, and slows down", async () => {
    const site = await makeSite();
    const command = [process.execPath, "-e", "console.error('no database'); process.exit(3)"];
    const pool = site.dibs.pool(site.options("worker", { min: 2, max: 2, command }));
    const crashes = async () =>
      (await site.dibs.poolDecisions("workers")).filter(({ type }) => type === "pool.crashing");
    await expect.poll(async () => (await crashes()).length).toBeGreaterThanOrEqual(3);
    const [last] = await crashes();
    expect(last!.reasons[0]).toMatch(
      /^A worker ended with code 3 after .*, \d in a row: the next one starts in/,
    );
    expect(last!.reasons[0]).toContain("Its last line: no database");
    await pool.stop();
  });

  test("a program that does not exist is reported as a crash", async () => {
    const site = await makeSite();
    const pool = site.dibs.pool(site.options("worker", { min: 1, command: ["/nowhere/worker"] }));
    await expect
      .poll(async () => (await site.dibs.poolDecisions("workers"))[0]?.reasons[0])
      .toMatch(/without starting .* ENOENT/);
    await pool.stop();
  });
});

test("a pool of drones has one process per task", async () => {
  const site = await makeSite();
  const pool = site.dibs.pool(site.options("drone", { max: 3 }));
  await addTasks(site, 9, 20);
  await expect.poll(() => doneOf(site)).toBe(9);
  await expect.poll(() => pool.status().size).toBe(0);
  await pool.stop();
  const { tasks } = await site.dibs.queue("work").tasks({ state: "done", limit: 100 });
  expect(new Set(tasks.map(({ result }) => result)).size).toBe(9);
  expect(tasks.every(({ attempt }) => attempt === 1)).toBe(true);
  expect(processesOf(site.file)).toEqual([]);
});

describe("one process at a time", () => {
  test("of two pools with the same name, one waits until the other has stopped", async () => {
    const site = await makeSite();
    const options = site.options("worker", { min: 1, lease: KEPT_LEASE_MS });
    const first = site.dibs.pool(options);
    await first.ready;
    const second = site.dibs.pool(options);
    await expect.poll(() => first.status().workers.live).toBe(1);
    expect(second.status()).toMatchObject({ holds: false, size: 0 });
    await first.stop();
    await second.ready;
    expect(second.status().holds).toBe(true);
    await second.stop();
  });

  test(
    "a supervisor that is killed leaves no process, and its successor never has more than max workers",
    LONG,
    async () => {
      const site = await makeSite();
      const options = site.options("worker", { min: 2, max: 3 });
      const kills = isLong ? 20 : 3;
      let most = 0;
      const watching = setInterval(() => {
        most = Math.max(most, processesOf(site.file).length);
      }, 20);
      onTestFinished(() => clearInterval(watching));
      await addTasks(site, 20 * kills, 100);
      for (let kill = 0; kill < kills; kill++) {
        const supervisor = startSupervisor(site.file, options);
        await once(supervisor.stdout, "data");
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 1_000));
        supervisor.kill("SIGKILL");
        await once(supervisor, "exit");
      }
      const last = startSupervisor(site.file, options);
      await expect.poll(() => doneOf(site), LONG).toBe(20 * kills);
      last.kill("SIGTERM");
      await once(last, "exit");
      await expect.poll(() => processesOf(site.file)).toEqual([]);
      // A process of the launcher's own is not a worker: it has no such environment.
      expect(most).toBeLessThanOrEqual(3);
      expect((await site.dibs.queue("work").stats()).depth).toMatchObject({ dead: 0, ready: 0, claimed: 0 });
    },
  );
});

test("workers that lost their launcher and their supervisor are ended before a pool of the name starts others", async () => {
  const site = await makeSite();
  const options = site.options("worker", { min: 2, max: 2 });
  const first = startSupervisor(site.file, options);
  await expect.poll(async () => (await site.dibs.workers()).length).toBe(2);
  const lost = processesOf(site.file);
  // A supervisor that sees its launcher die ends the workers. Stopped, it sees nothing.
  process.kill(first.pid!, "SIGSTOP");
  await expect.poll(() => isStopped(first.pid!)).toBe(true);
  for (const pid of [...childrenOf(first.pid!), first.pid!]) process.kill(pid, "SIGKILL");
  await once(first, "exit");
  expect(processesOf(site.file)).toEqual(lost);
  const pool = site.dibs.pool(options);
  await pool.ready;
  expect(processesOf(site.file).filter((pid) => lost.includes(pid))).toEqual([]);
  await pool.stop();
  expect(processesOf(site.file)).toEqual([]);
});

describe("workers elsewhere", () => {
  test("a webhook gets each size with its reasons, and is tried again when it fails", async () => {
    const site = await makeSite();
    const calls: { pool: string; size: number; reasons: string[] }[] = [];
    const server = createServer((request, response) => {
      let body = "";
      request.on("data", (part: Buffer) => (body += part.toString()));
      request.on("end", () => {
        calls.push(JSON.parse(body) as (typeof calls)[number]);
        response.writeHead(calls.length === 1 ? 503 : 200).end();
      });
    }).listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const webhook = `http://127.0.0.1:${(server.address() as AddressInfo).port}/scale`;
    const { command: _, kind: __, ...rest } = site.options("worker", { min: 3 });
    const pool = site.dibs.pool({ ...rest, scale: { webhook } });
    await expect.poll(() => calls.map(({ size }) => size)).toEqual([3, 3]);
    expect(calls[1]).toMatchObject({ pool: "workers", size: 3, reasons: expect.any(Array) as string[] });
    await pool.stop();
  });

  test("a command gets the size", async () => {
    const site = await makeSite();
    const { command: _, kind: __, ...rest } = site.options("worker", { min: 2 });
    const marker = `${site.file}.size`;
    const pool = site.dibs.pool({
      ...rest,
      scale: { command: ["sh", "-c", `echo "$DIBS_POOL {size}" > ${marker}`] },
    });
    const { existsSync, readFileSync } = await import("node:fs");
    await expect.poll(() => existsSync(marker) && readFileSync(marker, "utf8")).toBe("workers 2\n");
    await pool.stop();
  });
});

test("pools that share a cap never have more workers together", async () => {
  const site = await makeSite();
  const cap = new Cap(3);
  const start = (name: string, queue: string) =>
    site.dibs.startPool(site.options("worker", { name, queues: [queue, "work"], min: 1 }), cap);
  await addTasks(site, 40, 50);
  const pools = [start("a", "one"), start("b", "two")];
  let most = 0;
  const watching = setInterval(() => (most = Math.max(most, processesOf(site.file).length)), 20);
  onTestFinished(() => clearInterval(watching));
  await expect.poll(() => doneOf(site)).toBe(40);
  await Promise.all(pools.map((pool) => pool.stop()));
  expect(most).toBeLessThanOrEqual(3);
});
