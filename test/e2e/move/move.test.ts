import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect } from "vitest";
import { NO_DEPTH } from "../../../src/core/task.ts";
import type { Dibs } from "../../../src/index.ts";
import { freshDatabase } from "../../postgres/shared.ts";
import { Random } from "../../simulation/random.ts";
import { type Stage, test, until } from "../harness/stage.ts";
import { isDrained, type Job, Judge, POLICY, taskOf } from "./judge.ts";

const KILLS = 8;
const BACKLOG = 1_500;
/** Between two adds: the workers are to keep up. */
const PAUSE_MS = 10;

/** Adds until told to stop; answers the last number. */
async function produce(dibs: Dibs, from: number, isOver: () => boolean): Promise<number> {
  const queue = dibs.queue<Job>("work", POLICY);
  for (let n = from; ; n++) {
    if (isOver()) return n - 1;
    const { data, ...options } = taskOf(n);
    await queue.add(data, options);
    await sleep(PAUSE_MS);
  }
}

async function killMovers(stage: Stage, from: string, to: string, seed: number): Promise<number> {
  const random = new Random(seed);
  let batches = 0;
  for (let round = 0; round < KILLS; round++) {
    const mover = stage.start("mover.ts", { from, to });
    await mover.hears("ready");
    await mover.hearsTimes("batch", random.between(1, 3)).catch(() => {});
    await sleep(random.between(0, 12));
    await mover.kill();
    batches += mover.all("batch").length;
  }
  return batches;
}

async function stageMove(stage: Stage, from: string, to: string): Promise<void> {
  const judge = new Judge();
  stage.file = from;
  const here = await stage.open();
  stage.file = to;
  const there = await stage.open();
  const backlog = Array.from({ length: BACKLOG }, (_, index) => taskOf(index + 1));
  await here.queue<Job>("work", POLICY).addMany(backlog);
  const workers = [here, there].map((dibs) =>
    dibs.queue<Job>("work", POLICY).work(judge.handle, { concurrency: 10 }),
  );
  await Promise.all(workers.map((worker) => worker.ready));
  let over = false;
  const producing = produce(here, BACKLOG + 1, () => over);
  expect(await killMovers(stage, from, to, 1)).toBeGreaterThan(KILLS / 2);
  over = true;
  const last = await producing;
  const mover = stage.start("mover.ts", { from, to });
  expect(await mover.hears("moved")).toMatchObject({ left: 0 });
  await until("everything is done", () => isDrained(there));
  judge.judge(last);
  expect((await here.queue("work").stats()).depth).toEqual(NO_DEPTH);
  const { depth } = await there.queue("work").stats();
  expect(depth.done + depth.dead).toBe(last);
  expect(depth.dead).toBe(judge.rejected.size);
  // The keys are taken there now.
  expect(
    (await there.queue<Job>("work").add({ n: 3, group: null }, { idempotencyKey: "key-3" })).existing,
  ).toBe(true);
  await Promise.all(workers.map((worker) => worker.stop()));
}

describe("a move that is killed again and again, while tasks are added and done", () => {
  test("from a file to PostgreSQL: every task exactly once", { timeout: 120_000 }, async ({ stage }) => {
    const file = stage.file;
    await stageMove(stage, file, await freshDatabase((undo) => stage.onEnd(undo)));
  });

  test("from PostgreSQL back to a file: every task exactly once", { timeout: 120_000 }, async ({ stage }) => {
    const file = stage.file;
    await stageMove(stage, await freshDatabase((undo) => stage.onEnd(undo)), file);
  });
});
