import { describe, expect } from "vitest";
import { freshDatabase } from "../postgres/shared.ts";
import type { Program } from "./harness/program.ts";
import { KEPT_LEASE_MS, test, until } from "./harness/stage.ts";

const KILLED = { code: null, signal: "SIGKILL" };

describe.concurrent.each(["a file", "PostgreSQL"])("parents and children on %s", (where) => {
  test("a parent continues and no child is doubled, although the workers of both are killed", async ({
    stage,
  }) => {
    if (where === "PostgreSQL") stage.file = await freshDatabase((undo) => stage.onEnd(undo));
    const dibs = await stage.open();
    const sums = dibs.queue<number, number>("sums");
    const parts = dibs.queue<number, number>("parts");
    const start = (options: { role: "parent" | "child"; die?: string }): Program =>
      stage.start("family.ts", { file: stage.file, lease: KEPT_LEASE_MS, ...options });

    const task = await sums.add(3);
    expect(await start({ role: "parent", die: "spawned 1" }).exited).toEqual(KILLED);
    expect(await start({ role: "parent", die: "spawned 3" }).exited).toEqual(KILLED);
    expect((await task.children()).children).toHaveLength(3);
    const woken = start({ role: "parent", die: "woken" });
    await until("the parent is parked", async () => (await task.info()).state === "parked");
    expect(await start({ role: "child", die: "at 2" }).exited).toEqual(KILLED);
    start({ role: "child" });
    // The last child woke its parent in a process that knew nothing of it.
    expect(await woken.exited).toEqual(KILLED);
    start({ role: "parent" });

    expect(await task.result({ timeout: "60s" })).toBe(14);
    const { children } = await task.children();
    expect(children.map(({ n, state }) => [n, state])).toEqual([1, 2, 3].map((n) => [n, "done"]));
    expect((await parts.stats()).depth.done).toBe(3);
    const outcomes = (await task.history()).map(({ outcome }) => outcome);
    expect(outcomes.filter((outcome) => outcome === "lost")).toHaveLength(3);
    expect(outcomes).toContain("parked");
    expect(outcomes.at(-1)).toBe("done");
  });
});
