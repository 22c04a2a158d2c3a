import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect } from "vitest";
import { type Dibs, PLANNED_HEADER } from "../../src/index.ts";
import type { Program } from "./harness/program.ts";
import { type Stage, test } from "./harness/stage.ts";

const ROUNDS = 5;

describe.concurrent("a schedule with several processes", () => {
  test("a schedule fires once each time, while its processes are killed and started", async ({ stage }) => {
    await define(stage, "all");
    const idlers = await Promise.all([1, 2, 3].map(() => startIdler(stage)));
    for (let round = 0; round < ROUNDS; round++) {
      // Until the next one has started, which takes about as long as the time between two firings.
      const next = startIdler(stage);
      await idlers.shift()!.kill();
      idlers.push(await next);
    }
    await Promise.all(idlers.map((idler) => idler.kill()));
    // No process is running: these firings are missed, and made up for.
    await sleep(2_500);
    const dibs = await stage.open();
    const times = await until(dibs, 4);
    const first = times[0]!;
    expect(times).toEqual(times.map((_, n) => first + n * 1_000));
  });

  test("a schedule whose defining process is gone fires once for all missed times", async ({ stage }) => {
    await define(stage, "once");
    await sleep(3_500);
    const dibs = await stage.open();
    const [first] = await until(dibs, 1);
    await dibs.schedule("s").pause();
    const { createdAt } = await dibs.schedule("s").info();
    expect(first! - createdAt.getTime()).toBeGreaterThanOrEqual(3_000);
  });
});

async function define(stage: Stage, missed: "once" | "all"): Promise<void> {
  const dibs = await stage.open();
  await dibs.schedule("s", { every: "1s", missed }, { queue: "ticks" }).ready;
  await dibs.close();
}

async function startIdler(stage: Stage): Promise<Program> {
  const idler = stage.start("idler.ts", { file: stage.file });
  await idler.hears("open");
  return idler;
}

/** The planned times, once there are `count`. */
async function until(dibs: Dibs, count: number): Promise<number[]> {
  for (;;) {
    const { tasks } = await dibs.queue("ticks").tasks({ state: "ready", limit: 1_000 });
    if (tasks.length >= count) return tasks.map(({ headers }) => Date.parse(headers[PLANNED_HEADER]!));
    await sleep(100);
  }
}
