// The example of a file with three pools runs, and all tasks of its queues are done. Nobody adds invoices here: each
// return adds one, and three of them fill the batch that the third pool waits for.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { open } from "../../src/index.ts";
import { MAIN } from "../cli/run-dibs.ts";
import { bareEnvironment } from "../run/compile-cache.ts";

test("the example of a pool file works on three queues", async () => {
  const folder = mkdtempSync(join(tmpdir(), "dibs-pools-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "work.db");
  await using dibs = await open(file);
  for (const queue of ["orders", "returns"])
    await dibs.queue(queue).addMany([1, 2, 3].map((order) => ({ data: { order, amount: 12.5 } })));
  const child = spawn(process.execPath, [MAIN, "pool", "--config", "pools.json", "--url", file], {
    ...{ cwd: join(import.meta.dirname, "../../examples"), env: bareEnvironment(), stdio: "ignore" },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  for (const queue of ["orders", "returns", "invoices"])
    await expect.poll(async () => (await dibs.queue(queue).stats()).depth.done, { timeout: 60_000 }).toBe(3);
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  expect(await ended).toEqual([0, null]);
  const { tasks } = await dibs.queue("returns").tasks({ state: "done" });
  expect(tasks[0]!.result).toMatchObject({ shipped: true });
});
