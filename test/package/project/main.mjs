// A user's program: adds a task to a store in a file, works it, and awaits its result.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open } from "dibs";
import * as testing from "dibs/testing";

assert.notEqual(Object.keys(testing).length, 0, "dibs/testing exports nothing");

const folder = mkdtempSync(join(tmpdir(), "dibs-user-"));
const file = join(folder, "work.db");
try {
  const dibs = await open(file);
  const emails = dibs.queue("emails", { lease: "30s" });
  const worker = emails.work(async (task) => ({ sent: true, to: task.data.to, attempt: task.attempt }));
  await worker.ready;

  const task = await emails.add({ to: "ada@example.com" });
  const receipt = await task.result({ timeout: "30s" });
  assert.deepEqual(receipt, { sent: true, to: "ada@example.com", attempt: 1 });
  assert.ok(existsSync(file), "the store is not in its file");

  await worker.stop();
  await dibs[Symbol.asyncDispose]();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
