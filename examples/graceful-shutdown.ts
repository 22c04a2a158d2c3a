// A worker process is told to stop: it finishes what it has started and releases the rest. No attempt is used up.

import assert from "node:assert/strict";
import { once } from "node:events";
import { fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { open } from "../src/index.ts";

const [role = "supervisor", file = ""] = process.argv.slice(2);
if (role === "worker") await work(file);
else await supervise();

async function work(path: string): Promise<void> {
  const dibs = await open(path);
  const worker = dibs.queue<{ seconds: number }>("reports").work(
    async (task) => {
      process.send?.("started");
      await sleep(task.data.seconds * 1_000, undefined, { signal: task.signal });
    },
    { concurrency: 2, prefetch: 2 },
  );
  await once(process, "SIGTERM");
  // Handlers have 6 s. Those that still run 5 s before the end are asked to stop, through task.signal.
  await worker.stop({ timeout: "6s" });
  await dibs.close();
  if (process.connected) process.disconnect();
}

async function supervise(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "dibs-shutdown-"));
  const path = join(folder, "work.db");
  const dibs = await open(path);
  const reports = dibs.queue<{ seconds: number }>("reports");
  const [short, ...long] = await reports.addMany([0.5, 60, 60, 60].map((seconds) => ({ data: { seconds } })));

  const worker = fork(import.meta.filename, ["worker", path]);
  await once(worker, "message");
  worker.kill("SIGTERM");
  const [exitCode] = (await once(worker, "exit")) as [number | null];
  assert.equal(exitCode, 0);

  assert.equal((await short!.info()).state, "done");
  for (const task of long) {
    const { state, attempt } = await task.info();
    assert.deepEqual({ state, attempt }, { state: "ready", attempt: 1 });
  }
  console.log(
    `it ended with code ${exitCode}: 1 task done, ${long.length} back in the queue with all their attempts`,
  );
  await dibs.close();
  rmSync(folder, { recursive: true });
}
