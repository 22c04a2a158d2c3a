import { describe, expect } from "vitest";
import type { AttemptInfo } from "../../src/index.ts";
import { actsOf, test, until } from "./harness/stage.ts";
import type { Act } from "./programs/acts.ts";

// No task may ever wait until this ends: the tests would not finish in time.
const policy = {
  lease: "30s",
  elsewhere: "10m",
  backoff: { type: "fixed", delay: 0, jitter: 0 },
} as const;

describe.concurrent("retry elsewhere across processes", () => {
  test("each attempt of a failing task goes to a worker that has not failed it", async ({ stage }) => {
    const names = ["a", "b", "c"];
    await Promise.all(
      names.map((name) =>
        stage.startWorker({ policy: { ...policy, maxAttempts: 5 }, work: { name, concurrency: 4 } }),
      ),
    );
    const dibs = await stage.open();
    const tasks = await actsOf(dibs).addMany(
      Array.from({ length: 40 }, () => ({ data: { do: "fail" as const } })),
    );

    const failed = await Promise.allSettled(tasks.map((task) => task.result({ timeout: "20s" })));
    expect(
      failed.map((end) => (end.status === "rejected" ? (end.reason as { code: string }).code : end.status)),
    ).toEqual(tasks.map(() => "TASK_DEAD"));
    for (const task of tasks) {
      const ledger = await task.history();
      expect(ledger.map((row) => row.outcome)).toEqual(Array.from({ length: 5 }, () => "failed"));
      // Once all three have failed it, no better worker exists, and it does not wait.
      expect(ledger.slice(0, 3).map(nameOf).sort()).toEqual(names);
    }
  });

  test("a worker that fails thousands of tasks does not slow down others", async ({ stage }) => {
    const count = 2_000;
    const policyHere = { ...policy, maxAttempts: 3 };
    const good = await Promise.all(
      ["good-1", "good-2"].map((name) =>
        stage.startWorker({ policy: policyHere, work: { name, concurrency: 5 } }),
      ),
    );
    const bad = await stage.startWorker({ work: { name: "bad", concurrency: 50 } });
    const dibs = await stage.open();
    // It is by far the fastest, so that most tasks go to it first.
    const act: Act = { do: "fail", on: ["bad"], ms: 5 };
    const queue = actsOf(dibs);
    const tasks = await queue.addMany(Array.from({ length: count }, () => ({ data: act })));
    await until("all are done", async () => (await queue.stats()).depth.done === count);

    let retried = 0;
    for (const ledger of await Promise.all(tasks.map((task) => task.history()))) {
      expect(ledger.length).toBeLessThanOrEqual(2);
      expect(nameOf(ledger.at(-1)!)).toMatch(/^good/);
      if (ledger.length === 2) {
        expect(nameOf(ledger[0]!)).toBe("bad");
        retried++;
      }
    }
    expect(await bad.hearsTimes("start", retried)).toHaveLength(retried);
    expect(retried).toBeGreaterThanOrEqual(count / 3);
    // Both worked: neither was blocked by what the bad one had failed.
    for (const worker of good) expect(worker.all("start").length).toBeGreaterThan(count / 10);
  });
});

function nameOf(row: AttemptInfo): string {
  return row.worker.replace(/#.*/, "");
}
