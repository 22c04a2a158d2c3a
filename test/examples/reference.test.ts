// The API reference is complete: every runtime export, and every public member of the classes that users hold.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import * as dibs from "../../src/index.ts";
import { DeadLetters } from "../../src/api/dead-letters.ts";
import { Dibs } from "../../src/api/dibs.ts";
import { Pipeline } from "../../src/api/pipeline.ts";
import { PipelineWorker } from "../../src/api/pipeline-worker.ts";
import { Queue } from "../../src/api/queue.ts";
import { AddedRun, RunHandle } from "../../src/api/run-handle.ts";
import { Schedule } from "../../src/api/schedule.ts";
import { Subscription } from "../../src/api/subscription.ts";
import { Topic } from "../../src/api/topic.ts";
import { AddedTaskHandle, TaskHandle } from "../../src/api/task-handle.ts";
import { DEFAULT_POLICY } from "../../src/core/queue/policy.ts";
import { Alerts } from "../../src/pools/alerts.ts";
import { Pool } from "../../src/pools/pool.ts";
import { ManualClock } from "../../src/testing/index.ts";
import { Claim } from "../../src/worker/claim.ts";
import { Task } from "../../src/worker/task.ts";
import { Worker } from "../../src/worker/worker.ts";

const reference = ["api.md", "errors.md"]
  .map((file) => readFileSync(join(import.meta.dirname, "../../docs/reference", file), "utf8"))
  .join("\n");

/** Marked @internal in the sources. */
const INTERNAL = [
  "constructor",
  "startWorker",
  "startPool",
  "warnOnce",
  "settleAs",
  "storeError",
  "ackAs",
  "settlement",
  "isAckedInTransaction",
  "observeAckInTransaction",
  "isGone",
  "abort",
  "declare",
  "declareIfNeeded",
  "prepare",
  "prepareMessage",
  "childHandle",
];
/** Methods of clocks that only the library calls, and one that only tests of the engines call. */
const OF_CLOCKS = ["read", "after", "standStill"];

const held = {
  Dibs,
  Queue,
  Topic,
  Subscription,
  Pipeline,
  PipelineWorker,
  RunHandle,
  AddedRun,
  Schedule,
  DeadLetters,
  TaskHandle,
  AddedTaskHandle,
  Claim,
  Task,
  Worker,
  Pool,
  Alerts,
  ManualClock,
};

test.each(Object.entries(held))("the reference describes every member of %s", (_, { prototype }) => {
  const members = Object.getOwnPropertyNames(prototype).filter(
    (name) => ![...INTERNAL, ...OF_CLOCKS].includes(name),
  );
  expect(members.filter((name) => !isNamed(name))).toEqual([]);
});

test("the reference describes every export and every option of a policy", () => {
  const names = [...Object.keys(dibs), ...Object.keys(DEFAULT_POLICY)];
  expect(names.filter((name) => !isNamed(name))).toEqual([]);
});

function isNamed(name: string): boolean {
  return new RegExp(`\`[^\`]*\\b${name}\\b[^\`]*\``).test(reference);
}
