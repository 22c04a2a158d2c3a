// What an answer promised is on disk when the caller has it. Under load (sqlite.test.ts) other processes sync the same
// file within milliseconds, so that a batch which is never synced goes unnoticed. Here the only process dies with the
// answer.

import { describe, expect } from "vitest";
import type { Dibs } from "../../../src/index.ts";
import { MortalDisk, whyNoMortalDisk } from "../harness/mortal-disk.ts";
import type { Saying } from "../harness/program.ts";
import { test } from "../harness/stage.ts";
import type { LastAnswer } from "../programs/last-answer.ts";
import { FileMachine } from "./file-machine.ts";

const why = await whyNoMortalDisk();

const EXPECTATIONS: [LastAnswer, (dibs: Dibs, task: Saying) => Promise<void>][] = [
  ["added", isReady],
  ["claimed by hand", hasUsedItsFence],
  ["begun by a worker", hasUsedItsFence],
  ["acked", isDone],
];

describe.skipIf(why)(
  `power that is cut after a process's last answer${why ? `, not here: ${why}` : ""}`,
  () => {
    test.for(EXPECTATIONS)("a task that was %s is so after the cut", async ([answer, check], { stage }) => {
      const machine = new FileMachine(stage, await MortalDisk.on(stage));
      const program = stage.start("last-answer.ts", { file: stage.file, answer });
      const task = await program.hears(answer);
      await machine.cut([program]);
      const dibs = await machine.inspect();
      stage.onEnd(() => dibs.close());
      await check(dibs, task);
    });
  },
);

async function isReady(dibs: Dibs, { id }: Saying): Promise<void> {
  expect(await dibs.task(id!).info()).toMatchObject({ state: "ready", data: "data" });
}

/** The claim is there, and the fence of the next one is greater. */
async function hasUsedItsFence(dibs: Dibs, { id, fence }: Saying): Promise<void> {
  const [next] = await dibs.queue("work").claim({ wait: "1m", lease: "10m" });
  expect(next!.id).toBe(id);
  expect(next!.fence, "the fence of the next claim").toBeGreaterThan(fence!);
  expect(await dibs.task(id!).history()).toMatchObject([{ outcome: "lost", fence }]);
}

async function isDone(dibs: Dibs, { id, fence }: Saying): Promise<void> {
  expect(await dibs.task(id!).info()).toMatchObject({ state: "done", result: "result" });
  expect(await dibs.task(id!).history()).toMatchObject([{ outcome: "done", fence }]);
}
