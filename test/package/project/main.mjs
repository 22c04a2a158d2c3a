// A user's program: adds a task to a store in a file, works it, and awaits its result; and the same in a PostgreSQL
// database, whose address it is given, with a handler that takes longer than its lease.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { open } from "dibs";
import { dashboard } from "dibs/dashboard";
import * as testing from "dibs/testing";

assert.notEqual(Object.keys(testing).length, 0, "dibs/testing exports nothing");

const [postgres] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "dibs-user-"));
const file = join(folder, "work.db");
try {
  await useDashboard();
  await useStore(file);
  assert.ok(existsSync(file), "the store is not in its file");
  await useStore(postgres, { lease: "2s", takes: 3_000 });
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** The page is in the package, and its files are found from where its code is bundled. */
async function useDashboard() {
  const dibs = await open(":memory:");
  const handler = dashboard(dibs, { prefix: "/admin", authorize: () => true });
  const page = await handler(new Request("http://app.example/admin/", { headers: { accept: "text/html" } }));
  assert.equal(page.status, 200);
  assert.match(await page.text(), /<base href="\/admin\/">/);
  const me = await handler(new Request("http://app.example/admin/v1/me"));
  assert.deepEqual((await me.json()).scopes, ["admin:*"]);
  await handler.close();
  await dibs.close();
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
