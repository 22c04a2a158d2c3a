import { expect, test } from "vitest";
import { EXIT } from "../../src/cli/exit.ts";
import { dibs, dibsJson, makeFolder } from "./run-dibs.ts";

test("dibs advise says what limits a queue, and prints the same for programs", async () => {
  const folder = makeFolder();
  await dibs(folder, ["add", "emails", "-"], { input: "1\n2\n3\n" });
  const { code, stdout } = await dibs(folder, ["advise", "emails"]);
  expect(code).toBe(EXIT.done);
  expect(stdout).toMatch(/^3 tasks wait, the oldest for .*: there is no worker\. Start one\.$/m);
  expect(stdout).toMatch(/^workers needed +not known/m);
  expect(await dibsJson(folder, "advise", "emails")).toEqual({
    queue: "emails",
    verdict: "worker-bound",
    summary: [expect.stringContaining("3 tasks wait"), "The backlog does not shrink."],
    workers: { now: 0, needed: null, why: expect.any(String) as string, utilisation: null, wait: null },
    drainedIn: null,
    knee: { workers: null, ratePerWorker: null, arrivals: 0.05, capacity: null },
    lease: null,
    idle: [],
  });
});

test("dibs advise suggests the nearest queue for a mistyped one", async () => {
  const folder = makeFolder();
  await dibs(folder, ["add", "emails", "1"]);
  const { code, stderr } = await dibs(folder, ["advise", "email"]);
  expect(code).toBe(EXIT["not found"]);
  expect(stderr).toContain('Did you mean "emails"?');
});
