// One process adds tasks and waits for their results. Another process does the work. They share a file.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open, Reject } from "../src/index.ts";

const [role = "producer", file = ""] = process.argv.slice(2);
if (role === "worker") await work(file);
else await produce();

async function work(path: string): Promise<void> {
  const dibs = await open(path);
  dibs.queue<number, number>("squares").work(async (task) => {
    if (task.data > 1_000) throw new Reject(`${task.data} is too large for me`);
    return task.data ** 2;
  });
  // The worker keeps this process alive until it is told to stop.
  process.once("SIGTERM", () => void dibs.close());
}

async function produce(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "dibs-results-"));
  const path = join(folder, "work.db");
  const dibs = await open(path);
  const squares = dibs.queue<number, number>("squares");
  const worker = spawn(process.execPath, [import.meta.filename, "worker", path], { stdio: "inherit" });
  try {
    const task = await squares.add(12);
    console.log(`12 squared is ${await task.result({ timeout: "30s" })}`);
    // An id is enough, in any process, as long as the result is stored.
    assert.equal(await dibs.task<number>(task.id).result(), 144);
    const { worker: name, attempt } = await dibs.task(task.id).info();
    console.log(
      `it was done on attempt ${attempt} by ${name === `worker-${process.pid}` ? "us" : "another process"}`,
    );

    const tooLarge = await squares.add(1_001);
    await assert.rejects(tooLarge.result({ timeout: "30s" }), {
      code: "TASK_DEAD",
      message: /too large for me/,
    });
    const later = await squares.add(3, { delay: "1h" });
    await assert.rejects(later.result({ timeout: "50ms" }), { code: "TIMEOUT" });
    console.log("a dead task and a time-out are told apart by their codes");
  } finally {
    worker.kill("SIGTERM");
    await dibs.close();
    rmSync(folder, { recursive: true });
  }
}
