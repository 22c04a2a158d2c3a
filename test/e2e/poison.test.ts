import { describe, expect } from "vitest";
import { actsOf, test } from "./harness/stage.ts";

describe.concurrent("a poison task", () => {
  test("a poison task that kills its process each time is dead after exactly maxAttempts", async ({
    stage,
  }) => {
    const maxAttempts = 4;
    const options = { policy: { lease: "400ms", maxAttempts }, work: { name: "victim" } } as const;
    const dibs = await stage.open();
    const queue = actsOf(dibs, options.policy);
    const poison = await queue.add({ do: "die" });
    const wholesome = await queue.add({ do: "echo", value: "well" });

    // A supervisor: a process that dies is replaced.
    let starts = 0;
    for (let deaths = 0; deaths < maxAttempts; deaths++) {
      const victim = stage.start("worker.ts", { file: stage.file, queue: "work", ...options });
      expect(await victim.exited).toEqual({ code: null, signal: "SIGKILL" });
      starts += victim.all("start").filter((saying) => saying.id === poison.id).length;
    }
    await stage.startWorker(options);
    expect(await wholesome.result({ timeout: "20s" })).toBe("well");
    await expect(poison.result({ timeout: "20s" })).rejects.toMatchObject({ code: "TASK_DEAD" });

    expect(starts).toBe(maxAttempts);
    const ledger = await poison.history();
    expect(ledger.map((row) => [row.attempt, row.outcome])).toEqual(
      [1, 2, 3, 4].map((attempt) => [attempt, "lost"]),
    );
    expect(new Set(ledger.map((row) => row.worker)).size).toBe(maxAttempts);
    const { tasks } = await queue.dead.list();
    expect(tasks.map((task) => task.id)).toEqual([poison.id]);
  });
});
