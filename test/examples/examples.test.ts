// Each example is a program that checks itself. Here they run, in memory and on a file, and print what they should.

import { execFile } from "node:child_process";
import { globSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const examples = join(import.meta.dirname, "../../examples");

const SAYS: Record<string, RegExp> = {
  agents: /20 answers; \d+ went wrong at bob and right elsewhere\n.*dead letter after 1 attempt\n/,
  batch: /119 stored, 1 refused\n/,
  "cancel-and-progress":
    /claimed by a worker, at minute \d+\ncancelled while it ran\ncancelled before it ran\n/,
  children: /2 parts answered, and merged in call 2\n/,
  "dead-letters": /3 \(75 %\) {2}Error: connect to port <n> timed out\n[^]*3 sent back.*\n1 discarded\n/,
  "delayed-and-priority": /in this order: .*urgent.*\n[^]*expired and was never run/,
  events: /task\.added\n(.*\n)*task\.done by kettle\n/,
  "fair-tenants": /small: all 10 done after at most \d+ of 500 of the large one\n.*one worker each\n/,
  "fan-out":
    /order 2: thank you, on attempt 2\n[^]*3 orders off the shelf, 1350 cents counted, 3 audited\naudit left; 3 groups stay\n/,
  "graceful-shutdown": /ended with code 0: 1 task done, 3 back in the queue/,
  graph: /style \(after read\): done\nverdict \(after facts,style\): done\npublish .*: done\n/,
  groups: /ada: 1 2 3 4 5, in order\n/,
  "hand-over": /two attempts \(failed, done\), one review\n/,
  hello: /^sent to ada@example\.com on attempt 1\n$/,
  idempotency: /charged once: 1999 cents\n/,
  "llm-limits":
    /60 answers by \d+ workers\nat most \d+ requests and \d+ tokens within a second; \d+ were too many\n/,
  manage: /297 cancelled\nran (100, 1|1, 100), 100; the first has 2 attempts in its ledger\n/,
  "manual-claims": /a: acked.*\nb: the lease ended.*\nattempt 1, me: lost\nattempt 2, somebody else: done\n/,
  "migrate-bullmq": /^sent on attempt 2; 1 failed: not an address\n$/,
  "migrate-celery": /^20 on attempt 2, 19 letters\n$/,
  "migrate-pg-boss": /^2026-08 on attempt 2; 2026-09 on attempt 1; 2026-10 on attempt 1\n$/,
  "migrate-sidekiq": /^4 invoices, 1 dead after 3 attempts, 1 sent back\n$/,
  pipeline: /extract: 1 done\nanalyse: 3 done\nreview: 1 done\nrefused and done again: 2 attempts\n/,
  results: /12 squared is 144\n.*by another process\n/,
  schedule: /the next report is planned for .*\n\d ticks, each once\nnightly\nticks, paused\n/,
  schema: /user 15; the first result was refused/,
  steps: /one draft, 2 tries to send it\n/,
  unique: /20 changes, 1 rebuild\n/,
  verify:
    /(hasty|careful) was refused \(a summary is shorter than its text\), (hasty|careful) was accepted\n/,
};

/** These choose their own file. */
const TAKES_NO_ADDRESS = new Set(["hello", "results", "graceful-shutdown", "llm-limits"]);

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "dibs-examples-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function run(name: string, ...args: string[]): Promise<string> {
  const options = { cwd: folder, timeout: 55_000 };
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [join(examples, `${name}.ts`), ...args],
    options,
  );
  return stdout;
}

test("every example in the folder is in the list of tested ones", () => {
  const names = globSync("*.ts", { cwd: examples }).map((file) => basename(file, ".ts"));
  expect(Object.keys(SAYS)).toEqual(names.toSorted());
});

const runs = Object.entries(SAYS).flatMap(([name, says]) =>
  TAKES_NO_ADDRESS.has(name)
    ? [{ name, says, on: [] }]
    : [
        { name, says, on: [":memory:"] },
        { name, says, on: [`${name}.db`] },
      ],
);

// Separate processes, several at a time: on a busy machine they start slowly.
describe.concurrent("an example runs", () => {
  test.each(runs)("the example $name runs $on", async ({ name, says, on }) => {
    expect(await run(name, ...on)).toMatch(says);
  });
});
