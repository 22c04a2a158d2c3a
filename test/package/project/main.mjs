// A user's program: adds a task to a store in a file, works it, and awaits its result; and the same in a PostgreSQL
// database, whose address it is given, with a handler that takes longer than its lease.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { open } from "dibs";
import * as testing from "dibs/testing";

assert.notEqual(Object.keys(testing).length, 0, "dibs/testing exports nothing");

const [postgres] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "dibs-user-"));
const file = join(folder, "work.db");
try {
  await useStore(file);
  assert.ok(existsSync(file), "the store is not in its file");
  await useStore(postgres, { lease: "2s", takes: 3_000 });
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function useStore(address, { lease = "30s", takes = 0 } = {}) {
  const dibs = await open(address);
  const emails = dibs.queue("emails", { lease });
  const worker = emails.work(async (task) => {
    await sleep(takes);
    return { sent: true, to: task.data.to, attempt: task.attempt };
  });
  await worker.ready;

  const task = await emails.add({ to: "ada@example.com" });
  const receipt = await task.result({ timeout: "30s" });
  assert.deepEqual(receipt, { sent: true, to: "ada@example.com", attempt: 1 });

  await worker.stop();
  await dibs[Symbol.asyncDispose]();
}
